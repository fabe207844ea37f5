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

    def __init__(self, text: str, at: int = 0) -> None:
        self.at = at
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
        found = None
        for mark in marks:
            if len(mark) > len(rest):
                if mark.startswith(rest):
                    self.is_short = True
                    return None
            elif found is None and rest.startswith(mark):
                found = mark
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
        self._is_behind_mark = opening in (marks.block, marks.call)
        self._before = marks.call if opening == marks.block else ""
        read = "" if self._is_behind_mark else opening
        self._names = {
            name.removeprefix(read): name for name in tools.names if name.startswith(read)
        }
        """What may come of a name, and the name; ever fewer."""
        self._limit = MOST_HELD + tools.longest_name + marks.size

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Return where the first parameter, or the end, begins, with `name`; else `at`."""
        head = text[at : at + self._limit]
        glance = Glance(head)
        if self._is_behind_mark:
            glance.skip(SPACE)
        is_begun = glance.meet(self._before) is not None
        start = glance.at
        may_come = glance.is_short or start == len(head)
        if is_begun and not may_come:
            self._drop_names(head[start:])
            for rest, name in self._names.items():
                glance = Glance(head, start)
                body = self._find_body(glance, rest)
                if body is not None:
                    self.name = name
                    return at + body
                may_come |= glance.is_short
        self.is_text = is_last or not may_come or len(head) == self._limit
        return at

    def _drop_names(self, head: str) -> None:
        """Keep those that `head` begins with, or may come to begin with."""
        self._names = {
            rest: name for rest, name in self._names.items() if rest.startswith(head[: len(rest)])
        }

    def _find_body(self, glance: Glance, name: str) -> int | None:
        marks = self._marks
        if glance.meet(name + marks.name_end) is None:
            return None
        if marks.number_end:
            glance.skip(_NUMBER)
            if glance.meet(marks.number_end) is None:
                return None
        glance.skip(SPACE)
        body = glance.at
        return None if glance.meet(*marks.bodies) is None else body
