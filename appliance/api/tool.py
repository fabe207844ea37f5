"""Define functions that may be called, and read wishes about them; shared by dialects."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from appliance.chat.request import Tool, ToolChoice
from appliance.errors import InvalidRequest

_json = msgspec.json.Encoder()

ThoughtTokens = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""The most tokens of thought; 0 is none."""

ToolMode = Literal["none", "auto", "required"]
ToolName = Annotated[str, Meta(min_length=1, max_length=256)]


class FunctionFields(msgspec.Struct, kw_only=True):
    """A function that may be called; `parameters` is a JSON Schema of its arguments."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


def to_tool(function: FunctionFields) -> Tool:
    """Return a function as the model is told of it."""
    return Tool(function.name, function.description, function.parameters, function.strict)


def named_choice(name: str, tools: tuple[Tool, ...]) -> ToolChoice:
    """Return the wish for a call of one function; raises InvalidRequest if there is none such."""
    if all(tool.name != name for tool in tools):
        reason = f"tool_choice names the function '{name}', which is not among the tools."
        raise InvalidRequest(reason, param="tool_choice")
    return ToolChoice("named", name)


def mode_choice(mode: ToolMode | None, tools: tuple[Tool, ...]) -> ToolChoice:
    """Return the wish for calls in general; raises InvalidRequest if one is a must without any."""
    if mode == "required" and not tools:
        raise InvalidRequest("tool_choice 'required' needs tools.", param="tool_choice")
    return ToolChoice(mode or "auto")


def allowed_choice(
    names: Iterable[str], mode: ToolMode, tools: tuple[Tool, ...]
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Return those of the tools that may be called, and the wish for calls of them.

    Raises InvalidRequest for a name that is none of theirs.
    """
    allowed = {named_choice(name, tools).name for name in names}
    tools = tuple(tool for tool in tools if tool.name in allowed)
    return tools, mode_choice(mode, tools)


def arguments_text(arguments: str | dict[str, Any]) -> str:
    """Return an earlier call's arguments as JSON text; some clients send the object itself."""
    return arguments if isinstance(arguments, str) else _json.encode(arguments).decode()
