"""Read a call that has a head, from which its name is known, and then an object. Pure."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable

from appliance.parsing.argument import (
    ArgumentReader,
    EncodedReader,
    ObjectReader,
    pass_arguments,
)
from appliance.parsing.mark import mark_pattern
from appliance.parsing.parsed import (
    CallArguments,
    CallClosed,
    CallOpened,
    Parsed,
    Text,
    Thought,
)
from appliance.parsing.syntax import Stage
from appliance.parsing.toolbox import Toolbox


def in_a_row(parts: Iterable[str]) -> str:
    """Return a regular expression for parts with white space between, or for the start of them.

    Each part is one that also matches its own start where that is the text's end.
    """
    pattern = ""
    for part in reversed(list(parts)):
        pattern = rf"\s*+(?:\Z|(?:{part}){pattern})"
    return pattern


def object_pattern(closing: str) -> str:
    """Return a regular expression for an object's start, which is the group `object`; `quote` is
    there if it was encoded twice, and `end` is `closing` in its place, or the start of that."""
    begun = r'(?P<quote>"?)\s*+(?:\Z|(?P<object>\{))'
    return f"{begun}|(?P<end>{mark_pattern(*filter(None, [closing]))})"


class HeadedReader(ABC):
    """Reads a call from its head on; what a head is subclasses know. See CallReader."""

    def __init__(self, tools: Toolbox, ends: Iterable[str], pieces: list[Parsed]) -> None:
        """`ends` stand in a row behind the object; in its place the last ends a call without
        arguments, if it is there."""
        self.stage = Stage.HEAD
        self.is_broken = False
        self.opens: type[Text] | type[Thought] | None = None
        self._tools = tools
        self._ends = [end for end in ends if end]
        self._closing = self._ends[-1] if self._ends else ""
        self._pieces = pieces
        self._arguments: ArgumentReader = ObjectReader()
        self._is_closed = False

    def passes(self, text: str) -> bool:
        """Take more of the arguments; see CallReader."""
        return self._arguments.passes(text)

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Read on; see CallReader."""
        if self.stage is Stage.HEAD:
            at = self._read_head(text, at, is_last=is_last)
        if self.stage is Stage.BODY and not self._is_closed:
            at, is_sound = pass_arguments(self._arguments, text, at, self._pieces, is_last=is_last)
            self._is_closed = is_sound is not None
            self.is_broken = is_sound is False
        if self.stage is Stage.BODY and self._is_closed:
            at = self._read_end(text, at, is_last=is_last)
        return at

    @abstractmethod
    def _read_head(self, text: str, at: int, *, is_last: bool) -> int:
        """Read the head; come to another stage, or take nothing."""

    def _take_start(self, name: str, found: re.Match[str]) -> int | None:
        """Begin the object that `found`, by an `object_pattern`, has; return where, or None."""
        if found["object"]:
            self.stage = Stage.BODY
            self._pieces.append(CallOpened(name))
            schema = self._tools.parameters(name)
            if found["quote"]:
                self._arguments = EncodedReader(schema)
                self._ends.insert(0, found["quote"])
            else:
                self._arguments = ObjectReader(self._closing, schema)
            return found.end() - 1
        if self._closing and found["end"] == self._closing:
            self.stage = Stage.OVER
            self._pieces += [CallOpened(name), CallArguments("{}"), CallClosed(True)]
            return found.end()
        return None

    def _go_on(self, kind: type[Text] | type[Thought]) -> None:
        """Be no call, but what begins a text or a thought."""
        self.stage = Stage.OVER
        self.opens = kind

    def _read_end(self, text: str, at: int, *, is_last: bool) -> int:
        """Take what stands behind the object; each of it may be missing, or cut off."""
        while self._ends:
            rest = text[at:].lstrip()
            at = len(text) - len(rest)
            if self._ends[0].startswith(rest) and not is_last:
                return at
            if rest.startswith(self._ends[0]) or self._ends[0].startswith(rest):
                at = min(at + len(self._ends[0]), len(text))
            self._ends.pop(0)
        self.stage = Stage.OVER
        return at
