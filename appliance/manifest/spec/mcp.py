"""Define the manifest's section `mcp_servers`: which tool servers models may call."""

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from appliance.manifest.quantity import Seconds
from appliance.manifest.spec.section import Name, Section
from appliance.manifest.spec.text import HttpUrl


def _check_command(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("should be the absolute path of a program")
    return text


Command = Annotated[str, AfterValidator(_check_command), Field(json_schema_extra={"pattern": "^/"})]


class McpToolsSpec(Section):
    """Which of a server's tools models see."""

    allow: tuple[str, ...] = Field(
        default=("*",), description="Names, with * for any part; default: all."
    )


class McpServerSpec(Section):
    """One tool server: a program to run, or an address."""

    command: tuple[str, ...] | None = Field(
        default=None, description="Program and arguments to run."
    )
    url: HttpUrl | None = Field(default=None, description="Address of a running server.")
    env: dict[str, str] = Field(default={}, description="Environment of the program.")
    tools: McpToolsSpec = Field(default=McpToolsSpec(), description="Which tools models see.")
    timeout: Seconds = Field(default=30.0, gt=0, description="Longest time one call may take.")

    @model_validator(mode="after")
    def _is_one_kind(self) -> "McpServerSpec":
        if (self.command is None) == (self.url is None):
            raise ValueError("needs either 'command' or 'url'")
        if self.command is not None and not "".join(self.command[:1]).startswith("/"):
            raise ValueError("'command' should begin with the absolute path of a program")
        return self


class McpPolicySpec(Section):
    """What no tool server may exceed."""

    max_tool_calls: int = Field(default=10, ge=1, description="Tool calls for one request.")
    allow_commands: tuple[Command, ...] = Field(
        default=(), description="Programs that servers may be; others are refused."
    )


class McpServersSpec(Section):
    """Tool servers by name, and the policy for all of them."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Name, McpServerSpec] = Field(init=False)

    policy: McpPolicySpec = Field(
        default=McpPolicySpec(), description="What no tool server may exceed."
    )
