"""Define functions that may be called, and read wishes about them; shared by dialects."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from appliance.chat.request import Tool, ToolChoice
from appliance.errors import InvalidRequest

_json = msgspec.json.Encoder()

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much to think before the answer."""

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


def strict_fields(tools: tuple[Tool, ...], place: str) -> tuple[str, ...]:
    """Return where a call is wanted to fit its schema for sure, which is not served yet.

    `place` is a path in the body with `{}` for a tool's number.
    """
    return tuple(f"{place.format(index)}.strict" for index, each in enumerate(tools) if each.strict)


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


def unserved_choice(choice: ToolChoice) -> tuple[str, ...]:
    """Return tool_choice if it makes a call a must, which is not served yet."""
    return ("tool_choice",) if choice.mode in ("required", "named") else ()


def arguments_text(arguments: str | dict[str, Any]) -> str:
    """Return an earlier call's arguments as JSON text; some clients send the object itself."""
    return arguments if isinstance(arguments, str) else _json.encode(arguments).decode()
