"""Define the manifest's section `cache_policies`: how prompts that come again are kept."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from appliance.manifest.quantity import AutoBytes, Bytes, Seconds
from appliance.manifest.spec.section import Section
from appliance.manifest.spec.text import HomePath

_KINDS = {
    "block_tokens": ("paged",),
    "max_entries": ("prefix",),
    "max_bytes": ("prefix", "paged"),
    "ttl": ("prefix", "paged"),
    "ssd": ("prefix", "paged"),
}


class SsdTierSpec(Section):
    """A folder on disk below the cache in memory."""

    path: HomePath = Field(description="Folder; relative to the manifest.")
    max_bytes: Bytes = Field(gt=0, description="Most it may hold.")


class CachePolicySpec(Section):
    """One way to keep what was computed for a prompt."""

    # First, because the others' rules look at it.
    kind: Literal["none", "prefix", "paged"] = Field(
        description="prefix = whole prompts, paged = blocks that prompts share, none = nothing."
    )
    block_tokens: int = Field(default=64, ge=8, le=1024, description="Tokens in one block.")
    max_entries: int | None = Field(default=None, ge=1, description="Most prompts; none = any.")
    max_bytes: AutoBytes = Field(
        default="auto", description="Most memory; auto = from what is free."
    )
    ttl: Seconds | None = Field(
        default=None, gt=0, description="How long an entry is kept unused; none = for ever."
    )
    ssd: SsdTierSpec | None = Field(default=None, description="A folder below it; none = memory.")

    @field_validator(*_KINDS)
    @classmethod
    def _belongs_to_kind(cls, value: object, context: ValidationInfo) -> object:
        kinds = _KINDS[context.field_name or ""]
        kind = context.data.get("kind")
        if kind is not None and kind not in kinds:
            raise ValueError(f"is only for kind {' or '.join(map(repr, kinds))}")
        return value
