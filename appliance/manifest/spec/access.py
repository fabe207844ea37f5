"""Define the manifest's section `auth_keys`: who may call, and how much."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.manifest.quantity import Count
from appliance.manifest.secret import KeySecret
from appliance.manifest.spec.section import Later, Name, Section

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
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="Higher goes first; a request may only lower it.",
    )
    weight: float = Field(
        default=1.0, ge=0.001, le=1000, description="Share of a model when keys compete for it."
    )
