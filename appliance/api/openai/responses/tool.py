"""Read which functions may be called, and say which tools are offered. Pure."""

from dataclasses import dataclass
from typing import Any

import msgspec

from appliance.api.openai.responses.item import full_name
from appliance.api.openai.responses.wire import (
    AllowedChoice,
    FunctionTool,
    Item,
    NamedChoice,
    Namespace,
    ResponsesBody,
    converted,
)
from appliance.api.tool import allowed_choice, mode_choice, named_choice, to_tool
from appliance.chat.request import Tool, ToolChoice
from appliance.errors import InvalidRequest

_NEVER_CALLED = ("web_search", "image_generation")
"""Tools of OpenAI's own machines that agents offer without being asked: a model may always leave
an offer be, so they are not passed on. Types begin with these."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a request: those the model is told of, and those the answer says there were.

    `origins` leads from the name that the model is told to a function's namespace and own name.
    """

    tools: tuple[Tool, ...]
    choice: ToolChoice
    shown: list[Item]
    origins: dict[str, tuple[str, str]]


class _Catalogue:
    """The tools of a body as they are read, one after the other."""

    def __init__(self) -> None:
        self.tools: list[Tool] = []
        self.shown: list[Item] = []
        self.origins: dict[str, tuple[str, str]] = {}

    def add(self, tool: Item, place: str) -> None:
        kind = tool.get("type")
        if kind == "namespace":
            space = converted(tool, Namespace, place)
            inner = [
                self._function(each, f"{place}.tools[{number}]", space.name)
                for number, each in enumerate(space.tools)
            ]
            shown = {"type": kind, "name": space.name, "description": space.description}
            self.shown.append(shown | {"tools": inner})
        elif not (isinstance(kind, str) and kind.startswith(_NEVER_CALLED)):
            self.shown.append(self._function(tool, place))

    def _function(self, tool: Item, place: str, namespace: str | None = None) -> Item:
        kind = tool.get("type")
        if kind != "function":
            said = f"'{kind[:64]}'" if isinstance(kind, str) else "nothing"
            reason = f"{place}.type: tools of type {said} are not supported."
            raise InvalidRequest(reason, param=f"{place}.type")
        function = converted(tool, FunctionTool, place)
        told = to_tool(function)
        if namespace is not None:
            told = msgspec.structs.replace(told, name=full_name(namespace, function.name))
            self.origins[told.name] = (namespace, function.name)
        self.tools.append(told)
        return {
            "type": "function",
            "name": function.name,
            "description": function.description,
            "parameters": function.parameters,
            "strict": bool(function.strict),
        }


def read_tools(body: ResponsesBody) -> Offer:
    """Return what may be called; raises InvalidRequest naming a tool that cannot be."""
    read = _Catalogue()
    for index, tool in enumerate(body.tools or ()):
        read.add(tool, f"tools[{index}]")
    told, wish = tuple(read.tools), body.tool_choice
    if isinstance(wish, AllowedChoice):
        told, choice = allowed_choice((each.name for each in wish.tools), wish.mode, told)
    elif isinstance(wish, NamedChoice):
        choice = named_choice(wish.name, told)
    else:
        choice = mode_choice(wish, told)
    return Offer(told, choice, read.shown, read.origins)


def shown_choice(body: ResponsesBody) -> Any:  # noqa: ANN401 - a word or an object
    """Return the answer's word on which tools should be called."""
    return msgspec.to_builtins(body.tool_choice or "auto")
