"""Find what a JSON Schema's `$ref` names, within that schema. Pure."""

from functools import cached_property
from typing import Any
from urllib.parse import unquote

_LONGEST_INDEX = 9


def find_target(root: dict[str, Any], reference: str) -> tuple[str, Any] | None:
    """Find one alone; see References."""
    return References(root).find(reference)


class References:
    """Finds what is named within one schema, which stays as it is meanwhile."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        identity = root.get("$id")
        self._identity = identity.removesuffix("#") if isinstance(identity, str) else ""

    def find(self, reference: str) -> tuple[str, Any] | None:
        """Return the place of what is named, as a JSON pointer from `#`, and that; None: not there.

        A reference may be a pointer (`#/$defs/a`), an anchor (`#a`), either behind the root's own
        `$id`, or that alone.
        """
        reference = reference.removeprefix(self._identity)
        if reference in ("", "#"):
            return "#", self._root
        if reference.startswith("#/"):
            return self._follow(reference)
        return (reference, self._anchors[reference]) if reference in self._anchors else None

    def _follow(self, pointer: str) -> tuple[str, Any] | None:
        found: Any = self._root
        for part in unquote(pointer)[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and _is_index(key) and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return pointer, found

    @cached_property
    def _anchors(self) -> dict[str, Any]:
        """What has an anchor, by `#` and that; looked for once, as there may be many references."""
        anchors: dict[str, Any] = {}
        waiting: list[Any] = [self._root]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                if isinstance(name := part.get("$anchor"), str):
                    anchors.setdefault(f"#{name}", part)
                waiting += part.values()
            elif isinstance(part, list):
                waiting += part
        return anchors


def _is_index(key: str) -> bool:
    return key.isdecimal() and len(key) <= _LONGEST_INDEX
