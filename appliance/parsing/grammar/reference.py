"""Find what a JSON Schema's `$ref` names, within that schema. Pure."""

from typing import Any
from urllib.parse import unquote


def find_target(root: dict[str, Any], reference: str) -> tuple[str, Any] | None:
    """Return the place of what is named, as a JSON pointer from `#`, and that; None: not there.

    A reference may be a pointer (`#/$defs/a`), an anchor (`#a`), either behind the root's own
    `$id`, or that alone.
    """
    identity = root.get("$id")
    if isinstance(identity, str) and identity:
        reference = reference.removeprefix(identity.removesuffix("#"))
    if reference in ("", "#"):
        return "#", root
    if reference.startswith("#/"):
        return _follow(root, reference)
    if reference.startswith("#"):
        return _find_anchor(root, reference[1:])
    return None


def _follow(root: dict[str, Any], pointer: str) -> tuple[str, Any] | None:
    found: Any = root
    for part in unquote(pointer)[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return pointer, found


def _find_anchor(root: dict[str, Any], name: str) -> tuple[str, Any] | None:
    waiting: list[Any] = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("$anchor") == name:
                return f"#{name}", part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return None
