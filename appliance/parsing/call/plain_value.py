"""Turn a value that a model writes as plain text into JSON text, while it comes. Pure."""

import html
import re

from appliance.parsing.call.head import SPACE, Glance
from appliance.parsing.coercion import NULLS, coerce_to, quote
from appliance.parsing.mark import mark_finder, plain_text
from appliance.parsing.syntax import MOST_HELD

RAW = ("<![CDATA[", "]]>")
"""Round text in which XML has no marks."""
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});")
_HALF_ENTITY = re.compile(r"&(?:[a-z]{0,4}|#[0-9]{0,7}|#x[0-9a-fA-F]{0,6})\Z")


class PlainValue:
    """Reads one value of certain types. One instance each.

    What only a string can be is given away at once, and so is a string that may be missing, once it
    is no word for nothing. Other values are held until their end shows what they are.
    """

    def __init__(self, types: frozenset[str], *, has_entities: bool = False) -> None:
        """`types` are those of `value_types`. `has_entities`: `&lt;` and the like are decoded."""
        self._types = types
        self._has_entities = has_entities
        self._is_string = types == {"string"}
        self._may_be_string = types <= {"string", "null"}
        self._held = ""
        self._parts: list[str] = []
        self._half = ""

    @property
    def is_plain(self) -> bool:
        """Say whether more of it is more of a JSON string, but for marks and entities."""
        return self._is_string and not self._half

    def open(self) -> str:
        """Return the JSON text with which it begins for certain."""
        return '"' if self._is_string else ""

    def add(self, text: str) -> str:
        """Take more of it and return the JSON text that is certain now."""
        if self._may_be_string:
            return self._take(self._decode(text) if self._has_entities else text)
        self._parts.append(text)
        return ""

    def close(self) -> str:
        """Return the rest of the JSON text, once it has ended."""
        rest = self._take(self._half)
        self._half = ""
        if self._is_string:
            return f'{rest}"'
        text = self._held + "".join(self._parts)
        value = coerce_to(text, self._types)
        if self._has_entities and value.startswith('"'):
            # What is a value as it stands has no entities: templates encode none in it.
            value = coerce_to(_ENTITY.sub(_character, text), self._types)
        return value

    def cut(self) -> str:
        """Return what was held as it stands, if nothing more of it comes."""
        rest = self._held + "".join(self._parts) + self._half
        return quote(rest)[1:-1] if self._is_string else rest

    def _take(self, text: str) -> str:
        if self._is_string:
            return quote(text)[1:-1]
        self._held += text
        if not self._may_be_string or any(word.startswith(self._held) for word in NULLS):
            return ""
        self._is_string = True
        text, self._held = self._held, ""
        return quote(text)[:-1]

    def _decode(self, text: str) -> str:
        text = self._half + text
        half = _HALF_ENTITY.search(text)
        size = half.start() if half else len(text)
        self._half = text[size:]
        return _ENTITY.sub(_character, text[:size])


class ValueReader:
    """Reads a value up to its end. `taken` is what the last `read` added to the JSON text.

    One of `ends` is its end only if, but for white space, one of `followers` comes behind it, or
    nothing at all; else it belongs to the value.
    """

    def __init__(
        self,
        value: PlainValue,
        ends: tuple[str, ...],
        followers: tuple[str, ...],
        stem: str | None = None,
    ) -> None:
        """`stem` is what all ends begin with, for ends of which there are many."""
        self.taken = ""
        self.is_done = False
        self._value = value
        self._ends = ends
        self._finder = mark_finder(stem) if stem else mark_finder(*ends)
        self._plain = plain_text(*ends, "&")
        self._followers = followers
        self._limit = MOST_HELD + max(map(len, followers))

    def passes(self, text: str) -> bool:
        """Say whether all of `text` is more of the JSON text, as it stands."""
        return self._value.is_plain and self._plain.match(text) is not None

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Read on from `at` and return how far it came; what is left is wanted again, with more."""
        parts = []
        is_end: bool | None = False
        while is_end is False and at < len(text):
            found = self._finder.search(text, at)
            start = found.start() if found else len(text)
            parts.append(self._value.add(text[at:start]))
            at = start
            if found is not None:
                end = next((end for end in self._ends if text.startswith(end, at)), "")
                is_end = self._is_end(text, at, end, is_last)
                mark = "" if is_end is None else end or found[0]
                parts.append(self._value.close() if is_end else self._value.add(mark))
                at += len(mark)
        self.is_done = is_end is True
        self.taken = "".join(parts)
        return at

    def cut(self) -> str:
        """Return what was held as it stands, if nothing more comes."""
        return self._value.cut()

    def _is_end(self, text: str, at: int, end: str, is_last: bool) -> bool | None:
        """Say whether the mark at `at` ends the value; None if that is still to be seen."""
        if not end:
            is_part = any(each.startswith(text[at : at + len(each)]) for each in self._ends)
            return None if is_part and not is_last else False
        at += len(end)
        window = text[at : at + self._limit]
        glance = Glance(window)
        glance.skip(SPACE)
        if glance.meet(*self._followers) is not None:
            return True
        if not glance.is_short or len(window) == self._limit:
            return False
        return True if is_last else None


def _character(entity: re.Match[str]) -> str:
    return html.unescape(entity[0])
