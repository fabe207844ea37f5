"""Define the manifest as a whole. The loader, not this, sees to names, profiles and secrets."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from appliance.manifest.spec.access import AuthKeySpec
from appliance.manifest.spec.cache import CachePolicySpec
from appliance.manifest.spec.mcp import McpServersSpec
from appliance.manifest.spec.memory import MemorySpec
from appliance.manifest.spec.model import DefaultsSpec, ModelSpec
from appliance.manifest.spec.section import Later, Name, Section
from appliance.manifest.spec.server import ServerSpec


def _check_version(value: object) -> object:
    # To Python, and so to Literal[1], true and 1.0 are the same as 1.
    if type(value) is not int:
        raise ValueError("should be 1")
    return value


class Manifest(Section):
    """The whole file. The loader, not this class, sees to it that names are unique."""

    version: Annotated[Literal[1], BeforeValidator(_check_version)] = Field(
        description="The form of this file."
    )
    server: ServerSpec = Field(default=ServerSpec(), description="How the HTTP service behaves.")
    memory: MemorySpec = Field(
        default=MemorySpec(), description="How much of the machine models may take."
    )
    auth_keys: tuple[AuthKeySpec, ...] = Field(
        default=(), description="Who may call; none = loopback only."
    )
    cache_policies: dict[Name, CachePolicySpec] = Field(
        default={},
        description="Ways to keep what was computed for a prompt, by name.",
        json_schema_extra={"additionalProperties": False},
    )
    defaults: DefaultsSpec = Field(default=DefaultsSpec(), description="Merged under every model.")
    models: tuple[ModelSpec, ...] = Field(default=(), description="What is served.")
    mcp_servers: Annotated[McpServersSpec, Later()] = Field(
        default=McpServersSpec(), description="Tool servers by name, and their policy."
    )
