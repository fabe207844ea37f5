"""Find out whether what stands behind a mark opens a call, and of which function. Pure."""

import re
from dataclasses import dataclass

from appliance.parsing.syntax import MOST_HELD
from appliance.parsing.toolbox import Toolbox

SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"[0-9]*")


def skip_space(text: str, at: int) -> int:
    """Return where what is no white space begins."""
    found = SPACE.match(text, at)
    return found.end() if found else at


class Glance:
    """Compares a text with what may stand in it, one step after the other; takes nothing."""

    def __init__(self, text: str) -> None:
        self.at = 0
        self.is_short = False
        """What fits so far ends where the text does."""
        self._text = text

    def skip(self, pattern: re.Pattern[str]) -> None:
        """Pass what matches."""
        found = pattern.match(self._text, self.at)
        self.at = found.end() if found else self.at

    def meet(self, *marks: str) -> str | None:
        """Pass the mark that stands here and return it; None if none of them is for certain."""
        rest = self._text[self.at :]
        self.is_short = any(len(mark) > len(rest) and mark.startswith(rest) for mark in marks)
        if self.is_short:
            return None
        found = next((mark for mark in marks if rest.startswith(mark)), None)
        self.at += len(found or "")
        return found


@dataclass(frozen=True, slots=True)
class HeadMarks:
    """What opens calls of one syntax, without white space.

    `call` stands before a function's name and may stand in a `block`; `name_end` is behind the
    name, or, with `number_end`, before the call's number. One of `bodies` comes next, those that
    begin with another before that one.
    """

    block: str
    call: str
    name_end: str
    number_end: str
    bodies: tuple[str, ...]

    @property
    def size(self) -> int:
        """The most characters that they take, each once."""
        longest = max(map(len, self.bodies))
        return sum(map(len, (self.block, self.call, self.name_end, self.number_end))) + longest


class HeadReader:
    """Reads the head of one call from behind an opening mark on, which may be the name itself."""

    def __init__(self, marks: HeadMarks, opening: str, tools: Toolbox) -> None:
        self.name: str | None = None
        """The function that is called, once that is certain."""
        self.is_text = False
        """It is no call."""
        self._marks = marks
        self._opening = opening
        self._names = tools.names
        self._limit = MOST_HELD + tools.longest_name + marks.size

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Return where the first parameter, or the end, begins, with `name`; else `at`."""
        head = text[at : at + self._limit]
        may_come = False
        for name in self._names:
            glance = Glance(head)
            body = self._find_body(glance, name)
            if body is not None:
                self.name = name
                return at + body
            may_come |= glance.is_short
        self.is_text = is_last or not may_come or len(head) == self._limit
        return at

    def _find_body(self, glance: Glance, name: str) -> int | None:
        marks, before = self._marks, ""
        if self._opening in (marks.block, marks.call):
            glance.skip(SPACE)
            before = marks.call if self._opening == marks.block else ""
        elif name.startswith(self._opening):
            name = name.removeprefix(self._opening)
        else:
            return None
        if glance.meet(before) is None or glance.meet(name + marks.name_end) is None:
            return None
        if marks.number_end:
            glance.skip(_NUMBER)
            if glance.meet(marks.number_end) is None:
                return None
        glance.skip(SPACE)
        body = glance.at
        return None if glance.meet(*marks.bodies) is None else body
