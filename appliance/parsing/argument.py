"""Follow the JSON object of a call's arguments while it comes, and say where it ends. Pure."""

import re
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from appliance.parsing.coercion import coerce_to, property_schema, value_types
from appliance.parsing.mark import mark_pattern
from appliance.parsing.parsed import CallArguments, CallClosed, Parsed

_RUN = r'(?:[^"\\\x00-\x1f]++|\\.)*+'
_PLAIN = re.compile(rf"{_RUN}\Z", re.DOTALL)
_INSIDE = re.compile(rf'{_RUN}("|\\|[\x00-\x1f]|\Z)', re.DOTALL)
_HALF = "[dD][89abAB][0-9a-fA-F]{2}"
_UNIT = re.compile(
    rf'"|\\(?:["\\/bfnrt]|u(?!{_HALF})[0-9a-fA-F]{{4}}|u{_HALF}\\u[0-9a-fA-F]{{4}})|\\'
)
_LONGEST_UNIT = len(r"\ud83d\ude00")
_NO_JSON = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)


class ArgumentReader(Protocol):
    """Reads one object. `taken` is what the last `read` added to the arguments' text."""

    taken: str
    is_done: bool

    @property
    def is_sound(self) -> bool:
        """Say whether what was read is one JSON object."""

    def passes(self, text: str) -> bool:
        """Take `text`, if all of it is at once more of the arguments; see CallReader."""

    def read(self, text: str, at: int) -> int:
        """Read on from `at` and return how far it came; what is left is wanted again, with more."""

    def end(self, text: str, at: int) -> str:
        """Return what is left to give away of arguments that end too early, with `text`."""


def pass_arguments(
    reader: ArgumentReader, text: str, at: int, pieces: list[Parsed], *, is_last: bool
) -> tuple[int, bool | None]:
    """Append what `reader` reads from `at` on to the pieces of a call, and its close at the end.

    Return how far it came and, once the call is closed, whether it is sound; None before.
    """
    at = reader.read(text, at)
    taken = reader.taken
    is_closed = is_last or reader.is_done
    if is_last and not reader.is_done:
        taken += reader.end(text, at)
        at = len(text)
    if taken:
        pieces.append(CallArguments(taken))
    if not is_closed:
        return at, None
    is_sound = reader.is_done and reader.is_sound
    pieces.append(CallClosed(is_sound))
    return at, is_sound


def is_object(text: str) -> bool:
    """Say whether a text is a JSON object; one that is nested too deeply to be read is none."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except _NO_JSON:
        return False
    return True


@lru_cache(maxsize=256)
def _outside(closing: str, marks: str) -> re.Pattern[str]:
    return re.compile(rf'(["{{}}\[\]{marks}]|{mark_pattern(*filter(None, [closing]))})')


class ObjectReader:
    """Reads an object as it stands; `closing`, outside of its strings, ends it early.

    Line ends and the like in a string are written as JSON wants them: what they mean is plain. For
    a property that can be no string by the object's JSON Schema, a string is taken for what is in
    it, if that is a value of a right type; until its end it is held.
    """

    def __init__(self, closing: str = "", schema: dict[str, Any] | None = None) -> None:
        self.taken = ""
        self.is_done = False
        self._closing = closing
        self._schema = schema or {}
        self._deep = _outside(closing, "")
        self._shallow = _outside(closing, ":," if schema else "")
        self._is_in_string = False
        self._depth = 0
        self._is_value = False
        self._types: frozenset[str] = frozenset()
        self._string: list[str] | None = None
        self._whole: list[str] = []

    @property
    def is_sound(self) -> bool:
        """Say whether what was read is one JSON object."""
        return self._depth == 0 and is_object("".join(self._whole))

    def passes(self, text: str) -> bool:
        """Take text that is part of a string, as it stands; see ArgumentReader."""
        is_plain = self._is_in_string and self._string is None and _PLAIN.match(text) is not None
        if is_plain:
            self._whole.append(text)
        return is_plain

    def read(self, text: str, at: int) -> int:
        """Read on; see ArgumentReader."""
        parts: list[str] = []
        while not self.is_done:
            found = self._pattern().search(text, at)
            start, mark = (found.start(1), found[1]) if found else (len(text), "")
            self._put(text[at:start], parts)
            at = start
            if not mark or self._is_start_of_more(mark):
                break
            if mark == self._closing:
                self.is_done = True
                break
            self._take(mark, parts)
            at += len(mark)
        self.taken = "".join(parts)
        self._whole.append(self.taken)
        return at

    def end(self, text: str, at: int) -> str:
        """Return what is left; see ArgumentReader."""
        return "".join(self._string or ()) * self._is_held() + text[at:]

    def _pattern(self) -> re.Pattern[str]:
        if self._is_in_string:
            return _INSIDE
        return self._shallow if self._depth == 1 else self._deep

    def _is_start_of_more(self, mark: str) -> bool:
        if self._is_in_string:
            return mark == "\\"
        return len(mark) < len(self._closing) and self._closing.startswith(mark)

    def _is_held(self) -> bool:
        return self._string is not None and self._is_value

    def _put(self, text: str, parts: list[str]) -> None:
        if self._string is not None:
            self._string.append(text)
        if not self._is_held():
            parts.append(text)

    def _take(self, mark: str, parts: list[str]) -> None:
        if self._is_in_string:
            self._put(mark if mark >= " " else msgspec.json.encode(mark).decode()[1:-1], parts)
            if mark == '"':
                self._end_string(parts)
            return
        if mark == '"':
            self._begin_string()
        elif mark in ":,":
            self._is_value = mark == ":"
        else:
            self._depth += 1 if mark in "{[" else -1
            self.is_done = self._depth == 0
        self._put(mark, parts)

    def _begin_string(self) -> None:
        self._is_in_string = True
        if not self._schema or self._depth != 1:
            return
        if not self._is_value or "string" not in self._types:
            self._string = []

    def _end_string(self, parts: list[str]) -> None:
        self._is_in_string = False
        if self._string is None:
            return
        text, is_held, self._string = "".join(self._string), self._is_held(), None
        if is_held:
            parts.append(_unwrap(text, self._types))
        else:
            schema = property_schema(_decode_string(text), self._schema)
            self._types = value_types(schema, self._schema)


def _unwrap(text: str, types: frozenset[str]) -> str:
    """Return the value that a JSON string holds; the string, if it is none of those types."""
    value = coerce_to(_decode_string(text), types)
    return text if value.startswith('"') else value


def _decode_string(text: str) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except _NO_JSON:
        return ""


class EncodedReader:
    """Reads an object that was encoded a second time, as a JSON string; begins after its quote."""

    def __init__(self, schema: dict[str, Any] | None = None) -> None:
        self.taken = ""
        self.is_done = False
        self._inner = ObjectReader(schema=schema)
        self._held = ""

    @property
    def is_sound(self) -> bool:
        """Say whether what was read is one JSON object."""
        return self._inner.is_sound

    def passes(self, text: str) -> bool:
        """Take text without an escape that is part of a string; see ArgumentReader."""
        is_plain = not (self.is_done or self._held or _UNIT.search(text))
        return is_plain and self._inner.passes(text)

    def read(self, text: str, at: int) -> int:
        """Read on; see ArgumentReader."""
        parts: list[str] = []
        while not self.is_done:
            found = _UNIT.search(text, at)
            start = found.start() if found else len(text)
            at += self._pass(text[at:start], parts)
            if found is None or self.is_done:
                break
            if found[0] == '"':
                self.is_done = True
                break
            if found[0] == "\\" and len(text) - at < _LONGEST_UNIT:
                break
            self._pass(_decode_unit(found[0]), parts)
            at = found.end()
        self.taken = "".join(parts)
        return at

    def end(self, text: str, at: int) -> str:
        """Return what is left; see ArgumentReader."""
        return self._inner.end(self._held, 0) + text[at:]

    def _pass(self, text: str, parts: list[str]) -> int:
        """Let the object's reader have `text`; return how much of it is dealt with."""
        held, text = len(self._held), self._held + text
        size = self._inner.read(text, 0)
        parts.append(self._inner.taken)
        self.is_done = self._inner.is_done
        self._held = "" if self.is_done else text[size:]
        return size - held if self.is_done else len(text) - held


def _decode_unit(unit: str) -> str:
    # A backslash that begins nothing known stays; the object will not be sound then.
    return unit if unit == "\\" else msgspec.json.decode(f'"{unit}"', type=str)
