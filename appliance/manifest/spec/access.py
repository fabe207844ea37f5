"""Define the manifest's section `auth_keys`: who may call, and how much."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.manifest.quantity import Count
from appliance.manifest.secret import KeySecret
from appliance.manifest.spec.section import Later, Name, Section

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much to think before the answer."""

Role = Literal["admin", "inference", "metrics"]


class KeyLimitsSpec(Section):
    """Bounds for one key; none = no bound."""

    requests_per_minute: Count | None = Field(
        default=None, gt=0, description="Requests in any minute."
    )
    tokens_per_minute: Count | None = Field(
        default=None, gt=0, description="Prompt and answer tokens in any minute."
    )
    tokens_per_day: Count | None = Field(
        default=None, gt=0, description="Prompt and answer tokens in any day."
    )
    max_concurrent: int | None = Field(default=None, ge=1, description="Requests at one time.")


class KeyThinkingSpec(Section):
    """What a key's requests want of thoughts, where they do not say; goes before the model's own.

    What the model's template cannot grant is left out.
    """

    enabled: bool | None = Field(default=None, description="Whether to think; none = as the model.")
    effort: Effort | None = Field(default=None, description="How much to think; none = no wish.")
    budget: int | None = Field(
        default=None, ge=0, description="Most tokens of thought; none = as the model."
    )


class AuthKeySpec(Section):
    """One API key: who it is, what it may do, and where its secret comes from."""

    name: Name = Field(description="What logs and metrics call the key's owner.")
    key: KeySecret = Field(description="Where the secret comes from; never the secret itself.")
    roles: tuple[Role, ...] = Field(default=("inference",), description="What the key may do.")
    models: tuple[Name, ...] | None = Field(
        default=None, description="Only these models; none = all."
    )
    limits: Annotated[KeyLimitsSpec, Later()] = Field(
        default=KeyLimitsSpec(), description="Bounds for this key."
    )
    thinking: KeyThinkingSpec = Field(
        default=KeyThinkingSpec(), description="For this key's requests that do not say."
    )
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="Higher goes first; a request may only lower it.",
    )
    weight: float = Field(
        default=1.0, ge=0.001, le=1000, description="Share of a model when keys compete for it."
    )
