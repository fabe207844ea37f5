"""Follow the JSON object of a call's arguments while it comes, and say where it ends. Pure."""

import re
from functools import cache
from typing import Protocol

import msgspec

from appliance.parsing.mark import mark_pattern

_INSIDE = re.compile(r'"|\\(?:.|\Z)|[\x00-\x1f]', re.DOTALL)
_HALF = "[dD][89abAB][0-9a-fA-F]{2}"
_UNIT = re.compile(
    rf'"|\\(?:["\\/bfnrt]|u(?!{_HALF})[0-9a-fA-F]{{4}}|u{_HALF}\\u[0-9a-fA-F]{{4}})|\\'
)
_LONGEST_UNIT = len(r"\ud83d\ude00")


class ArgumentReader(Protocol):
    """Reads one object. `taken` is what the last `read` added to the arguments' text."""

    taken: str
    is_done: bool

    @property
    def is_sound(self) -> bool:
        """Say whether what was read is one JSON object."""

    def read(self, text: str, at: int) -> int:
        """Read on from `at` and return how far it came; what is left is wanted again, with more."""


def is_object(text: str) -> bool:
    """Say whether a text is a JSON object; one that is nested too deeply to be read is none."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


@cache
def _outside(closing: str) -> re.Pattern[str]:
    return re.compile(rf'["{{}}\[\]]|{mark_pattern(*filter(None, [closing]))}')


class ObjectReader:
    """Reads an object as it stands; `closing`, outside of its strings, ends it early.

    Line ends and the like in a string are written as JSON wants them: what they mean is plain.
    """

    def __init__(self, closing: str = "") -> None:
        self.taken = ""
        self.is_done = False
        self._closing = closing
        self._outside = _outside(closing)
        self._is_in_string = False
        self._depth = 0
        self._whole: list[str] = []

    @property
    def is_sound(self) -> bool:
        """Say whether what was read is one JSON object."""
        return self._depth == 0 and is_object("".join(self._whole))

    def read(self, text: str, at: int) -> int:
        """Read on; see ArgumentReader."""
        parts = []
        while not self.is_done:
            found = (_INSIDE if self._is_in_string else self._outside).search(text, at)
            start = found.start() if found else len(text)
            parts.append(text[at:start])
            at = start
            if found is None or self._is_start_of_more(found[0]):
                break
            if found[0] == self._closing:
                self.is_done = True
                break
            parts.append(self._take(found[0]))
            at = found.end()
        self.taken = "".join(parts)
        self._whole.append(self.taken)
        return at

    def _is_start_of_more(self, mark: str) -> bool:
        if self._is_in_string:
            return mark == "\\"
        return len(mark) < len(self._closing) and self._closing.startswith(mark)

    def _take(self, mark: str) -> str:
        if self._is_in_string:
            self._is_in_string = mark != '"'
            return mark if mark >= " " else msgspec.json.encode(mark).decode()[1:-1]
        if mark == '"':
            self._is_in_string = True
        else:
            self._depth += 1 if mark in "{[" else -1
            self.is_done = self._depth == 0
        return mark


class EncodedReader:
    """Reads an object that was encoded a second time, as a JSON string; begins after its quote."""

    def __init__(self) -> None:
        self.taken = ""
        self.is_done = False
        self._inner = ObjectReader()
        self._held = ""

    @property
    def is_sound(self) -> bool:
        """Say whether what was read is one JSON object."""
        return self._inner.is_sound

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
