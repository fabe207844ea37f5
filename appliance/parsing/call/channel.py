"""Read the headers of messages in which one answer comes: thoughts, calls and texts. Pure.

The format is that of Harmony (gpt-oss): `<|start|>assistant to=functions.f<|channel|>commentary
json<|message|>{…}<|call|>`, where each part of the header may be missing and the recipient may as
well stand behind the channel. It is a call where the recipient is a declared function, the channel
is neither that of thoughts nor that of final answers, and an object follows. All else is a thought
or a text as the channel says: whatever the model sends to tools that nobody declared, as it was
taught to for searching and for Python, is shown and never called. A header that is malformed is
dropped as long as it ends, and what it heads is text.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from appliance.parsing.call.headed import HeadedReader, in_a_row, object_pattern
from appliance.parsing.call.named import NamedSyntax
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.mark import mark_pattern
from appliance.parsing.parsed import Parsed, Text, Thought
from appliance.parsing.syntax import MOST_HELD, CallReader, Stage
from appliance.parsing.toolbox import Toolbox

_RECIPIENT = "to="
_NAMESPACE = "functions."


@dataclass(frozen=True, slots=True)
class ChannelSyntax:
    """Messages with headers, from `start` or the first of `inner` to `message`.

    `inner` are the marks in a header. One with one of the words `thoughts` begins a thought, one
    with one of `texts` a text. `closing` ends a call. `spelling` is how a call is written well,
    from behind `start`.
    """

    spelling: NamedSyntax
    thoughts: tuple[str, ...]
    texts: tuple[str, ...]
    closing: str = ""
    start: str = "<|start|>assistant"
    inner: tuple[str, ...] = ()
    message: str = "<|message|>"

    @property
    def closings(self) -> tuple[str, ...]:
        """Return nothing: what ends a message means so everywhere; see CallSyntax."""
        return ()

    @property
    def text_opening(self) -> str:
        """Return nothing: what heads a text is the thoughts' format's to say; see CallSyntax."""
        return ""

    def openings(self, tools: Toolbox) -> tuple[str, ...]:
        """Return the marks that begin a header, and the end of calls; see CallSyntax."""
        return tuple(filter(None, (self.start, *self.inner[:1], self.closing)))

    def starts(self, tools: Toolbox) -> tuple[str, ...]:
        """Return nothing; see CallSyntax."""
        return ()

    def reader(self, opening: str, tools: Toolbox, pieces: list[Parsed]) -> CallReader:
        """Return a reader; see CallSyntax."""
        return _ChannelReader(self, opening, tools, pieces)

    def grammar(self, rules: Rules, tools: Toolbox, *, is_single: bool) -> str:
        """Add the rules for calls; see CallSyntax."""
        return self.spelling.grammar(rules, tools, is_single=is_single)


@lru_cache(maxsize=16)
def _header(syntax: ChannelSyntax, opening: str) -> re.Pattern[str]:
    """Return what a header is like behind `opening`, or its start at the text's end."""
    marks = (*syntax.inner, syntax.message)
    guard = rf"(?=\s*+(?:\Z|{mark_pattern(_RECIPIENT, *marks)}))" * (opening == syntax.start)
    inner = "".join(f"|{re.escape(mark)}" for mark in syntax.inner)
    words = rf"(?P<words>(?:[^<\r\n]++{inner})*+)"
    return re.compile(rf"{guard}{words}(?:\Z|(?P<message>{mark_pattern(*marks)}))")


@lru_cache(maxsize=16)
def _start(closing: str) -> re.Pattern[str]:
    return re.compile(in_a_row([object_pattern(closing)]))


class _ChannelReader(HeadedReader):
    """Reads a header, and behind one of a call its object."""

    def __init__(
        self, syntax: ChannelSyntax, opening: str, tools: Toolbox, pieces: list[Parsed]
    ) -> None:
        super().__init__(tools, [syntax.closing], pieces)
        self._syntax = syntax
        self._opening = opening
        marks = "".join((*syntax.inner, syntax.message))
        self._limit = MOST_HELD + tools.longest_name + len(marks)
        if opening == syntax.closing:
            self._go_on(Text)

    def _read_head(self, text: str, at: int, *, is_last: bool) -> int:
        head = text[at : at + self._limit]
        is_all = is_last or len(head) == self._limit
        found = _header(self._syntax, self._opening).match(head)
        if found is not None and found["message"] == self._syntax.message:
            words = _split(found["words"], self._syntax.inner)
            return at + self._read_message(words, head, found.end(), is_all=is_all)
        if found is not None and is_last and self._opening == self._syntax.start:
            self._go_on(Text)
        elif found is None or is_all:
            self.stage = Stage.TEXT
        return at

    def _read_message(self, words: list[str], head: str, at: int, *, is_all: bool) -> int:
        """Begin the message that a header with these words heads; return where in `head`."""
        name = self._function(words)
        start = _start(self._closing).match(head, at) if name else None
        end = self._take_start(name, start) if start else None
        if end is not None:
            return end
        if start and not is_all:
            return 0
        self._go_on(Text if set(words).isdisjoint(self._syntax.thoughts) else Thought)
        return at

    def _function(self, words: list[str]) -> str:
        """Return the name of the function that a message goes to; "" if it goes to none."""
        if not set(words).isdisjoint((*self._syntax.thoughts, *self._syntax.texts)):
            return ""
        recipient = next((word for word in words if word.startswith(_RECIPIENT)), "")
        name = recipient.removeprefix(_RECIPIENT).removeprefix(_NAMESPACE)
        return name if name in self._tools.names else ""


def _split(words: str, marks: Iterable[str]) -> list[str]:
    for mark in marks:
        words = words.replace(mark, " ")
    return words.split()
