"""Say which marks may stand where in the answers of one format, and what they may begin. Pure."""

import re
from functools import lru_cache

from appliance.chat.request import Tool
from appliance.parsing.format import AnswerFormat
from appliance.parsing.mark import Found, MarkFinder
from appliance.parsing.parsed import Text, Thought
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox

_BLANK = re.compile(r"[ \t\r\n]*")

Kind = type[Text] | type[Thought]

SOFT: dict[Kind, str] = {Text: " \t\r\n", Thought: "\r\n"}
"""White space that belongs to a mark if it stands next to it."""


class Lexis:
    """The marks of one format with one set of functions. A value: it never changes."""

    def __init__(self, form: AnswerFormat, toolbox: Toolbox) -> None:
        thought = form.thought
        self.thought_opening = thought.opening if thought else None
        self.thought_closing = thought.closing if thought else None
        self.wrapper = thought.wrapper if thought and not form.has_structure else None
        self.frames = frozenset(thought.frames if thought else ())
        self._openings: dict[str, tuple[CallSyntax, ...]] = {}
        self._starts: dict[str, tuple[CallSyntax, ...]] = {}
        syntaxes = form.syntaxes(has_tools=bool(toolbox))
        for syntax in syntaxes:
            for mark in syntax.openings(toolbox):
                self._openings[mark] = (*self._openings.get(mark, ()), syntax)
        if self.thought_opening and self.thought_opening.startswith(tuple(self._openings)):
            self.thought_opening = None  # whoever reads that header says that it is a thought's
        for syntax in syntaxes:
            if (form.has_structure or form.is_bound) and syntax.text_opening is None:
                continue  # a call that is bound has its opening
            for mark in syntax.starts(toolbox):
                self._starts[mark] = (*self._starts.get(mark, ()), syntax)
        self._starts = {
            mark: (*self._openings.get(mark, ()), *more) for mark, more in self._starts.items()
        }
        closings = {mark for syntax in syntaxes for mark in syntax.closings}
        in_thought = self._openings if form.has_calls_in_thoughts else {}
        if in_thought and self.thought_closing:
            closings.add(self.thought_closing)
        self.closings = frozenset(closings)
        flowing = {self.thought_opening, *self.frames, *self._openings, *self.closings}
        flowing |= {self.wrapper[1]} if self.wrapper else set()
        starting = flowing | set(self._starts) | ({self.wrapper[0]} if self.wrapper else set())
        thinking = {self.thought_opening, self.thought_closing, *in_thought}
        self._starting: dict[str, list[str]] = {}
        for mark in sorted(filter(None, starting), key=len, reverse=True):
            self._starting.setdefault(mark[0], []).append(mark)
        self._finders: dict[Kind, MarkFinder] = {
            Text: MarkFinder(() if form.has_structure else filter(None, flowing)),
            Thought: MarkFinder(filter(None, thinking)),
        }
        self.plain = {
            kind: re.compile(rf"{finder.outside}++(?<![{SOFT[kind]}])\Z")
            for kind, finder in self._finders.items()
        }
        """Texts in which no mark begins, and whose end is no white space that may be a mark's."""

    def find(
        self, kind: Kind, text: str, at: int, *, is_start: bool, is_last: bool
    ) -> Found | None:
        """Return the first mark from `at` on, or what may become one at the end of `text`.

        `is_start`: nothing but white space was in the stretch so far. `is_last`: nothing follows.
        """
        if is_start and kind is Text:
            blank = _BLANK.match(text, at)
            at = blank.end() if blank else at
            found = self._find_start(text, at, is_last=is_last)
            if found is not None:
                return found
        return self._finders[kind].find(text, at, is_last=is_last)

    def _find_start(self, text: str, at: int, *, is_last: bool) -> Found | None:
        """Return what is at `at`; no pattern, since there is a mark for every function."""
        marks = self._starting.get(text[at : at + 1], ())
        rest = text[at : at + len(marks[0])] if marks else ""
        for mark in marks:
            if rest.startswith(mark):
                return Found(mark, at, is_whole=True)
            if not is_last and mark.startswith(rest):
                return Found(rest, at, is_whole=False)
        return None

    def syntaxes(self, mark: str, *, is_start: bool) -> tuple[CallSyntax, ...]:
        """Return the ways of writing calls that a mark may begin, those to be tried first first."""
        if is_start and mark in self._starts:
            return self._starts[mark]
        return self._openings.get(mark, ())


def find_lexis(form: AnswerFormat, toolbox: Toolbox) -> Lexis:
    """Return the marks of a format; kept for the tools that agents send again and again."""
    return _lexis(form, toolbox.names)


@lru_cache(maxsize=64)
def _lexis(form: AnswerFormat, names: frozenset[str]) -> Lexis:
    return Lexis(form, Toolbox(Tool(name) for name in sorted(names)))
