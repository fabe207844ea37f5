"""Hold the functions that an answer may call, as those who read and bound calls need them. Pure."""

from collections.abc import Iterable
from typing import Any

from appliance.chat.request import Tool


class Toolbox:
    """The declared functions of one request. A value: it never changes."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.names = frozenset(self._tools)
        self.longest_name = max(map(len, self.names), default=0)

    def __bool__(self) -> bool:
        """Say whether there is any function to call."""
        return bool(self._tools)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The functions in the order in which they were declared; of one name only the last."""
        return tuple(self._tools.values())

    def parameters(self, name: str) -> dict[str, Any]:
        """Return the JSON Schema of a declared function's arguments; empty if it has none."""
        return self._tools[name].parameters or {}
