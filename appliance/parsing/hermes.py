"""Read one call that is a JSON object between marks: a name, and arguments that stream. Pure.

The format is that of the Hermes and Qwen templates: `{"name": "f", "arguments": {…}}`.
"""

import re
from enum import Enum, auto

import msgspec

from appliance.parsing.argument import ArgumentReader, EncodedReader, ObjectReader, is_object
from appliance.parsing.format import Marks
from appliance.parsing.mark import mark_finder
from appliance.parsing.parsed import CallArguments, CallClosed, CallOpened, Parsed

_MOST_HELD = 64
_POSSIBLE = re.compile(r'\s*(?:\{\s*(?:"|\Z)|\Z)')
_NAMED = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")')
_ARGUED = re.compile(r'\s*,\s*"(?:arguments|parameters)"\s*:\s*("?)\s*(?=\{)')
_REST = re.compile(r"[}\s]*")
_ENCODED_REST = re.compile(r'[}"\s]*')


class Stage(Enum):
    """How far the reading of a call has come."""

    HEAD = auto()
    """It may still turn out to be text."""
    ARGUMENTS = auto()
    """It is a call; its arguments come."""
    TAIL = auto()
    """Its arguments have come."""
    OVER = auto()
    """It is read."""
    TEXT = auto()
    """It is no call."""


class _Body(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


class HermesCall:
    """One possible call, from behind its opening mark on.

    Until its name and the start of its arguments are read nothing is taken from the text; these
    must come within 64 characters beside the name, or it is text. `is_broken`: it turned out to be
    none with sound arguments after some were given away.
    """

    def __init__(self, marks: Marks, names: frozenset[str], pieces: list[Parsed]) -> None:
        """`pieces` is where what was read goes."""
        self.stage = Stage.HEAD
        self.is_broken = False
        self._marks = marks
        self._names = names
        self._limit = _MOST_HELD + max(map(len, names))
        self._pieces = pieces
        self._arguments: ArgumentReader = ObjectReader()
        self._rest = _REST

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Read on from `at` and return how far it came.

        What is left is wanted again, with more; after the last it is OVER, or TEXT.
        """
        if self.stage is Stage.HEAD:
            at = self._read_head(text, at, is_last)
        if self.stage is Stage.ARGUMENTS:
            at = self._read_arguments(text, at, is_last)
        if self.stage is Stage.TAIL:
            at = self._read_tail(text, at, is_last)
        return at

    def _read_head(self, text: str, at: int, is_last: bool) -> int:
        head = text[at : at + self._limit]
        is_full = len(text) - at > self._limit
        named = _NAMED.match(head)
        name = _decode_name(named[1]) if named else None
        if not _POSSIBLE.match(head) or (named and name not in self._names):
            self.stage = Stage.TEXT
            return at
        argued = _ARGUED.match(head, named.end()) if named else None
        if argued and name is not None:
            self._open(name, is_encoded=bool(argued[1]))
            return at + argued.end()
        size = self._read_whole(head, is_last=is_last and not is_full)
        if size == 0 and (is_last or is_full):
            self.stage = Stage.TEXT
        return at + size

    def _open(self, name: str, *, is_encoded: bool) -> None:
        self.stage = Stage.ARGUMENTS
        self._pieces.append(CallOpened(name))
        if is_encoded:
            self._arguments, self._rest = EncodedReader(), _ENCODED_REST
        else:
            self._arguments = ObjectReader(self._marks.closing)

    def _read_whole(self, head: str, *, is_last: bool) -> int:
        """Take a short call that is complete, whatever the order of its keys; return its size."""
        closing = self._marks.closing
        sizes = [found.start() for found in re.finditer(re.escape(closing), head)]
        for size in [*sizes, len(head)] if is_last else sizes:
            body = _decode_body(head[:size])
            if body is not None and body[0] in self._names:
                name, arguments = body
                self._pieces += [CallOpened(name), CallArguments(arguments), CallClosed(True)]
                self.stage = Stage.OVER
                return min(size + len(closing), len(head))
        return 0

    def _read_arguments(self, text: str, at: int, is_last: bool) -> int:
        reader = self._arguments
        at = reader.read(text, at)
        taken = reader.taken
        if is_last and not reader.is_done:
            taken += text[at:]
            at = len(text)
        if taken:
            self._pieces.append(CallArguments(taken))
        if is_last or reader.is_done:
            self.is_broken = not (reader.is_done and reader.is_sound)
            self._pieces.append(CallClosed(not self.is_broken))
            self.stage = Stage.TAIL
        return at

    def _read_tail(self, text: str, at: int, is_last: bool) -> int:
        """Drop what closes the call; what does not, and no closing mark follows it, is text."""
        opening, closing = self._marks.opening, self._marks.closing
        rest = self._rest.match(text, at)
        at = rest.end() if rest else at
        end = at + _MOST_HELD + len(closing)
        found = mark_finder(opening, closing).search(text, at, end)
        mark = found[0] if found else ""
        if mark in (opening, closing) or is_last or len(text) >= end:
            self.stage = Stage.OVER
        return found.end() if found and mark == closing else at


def _decode_name(text: str) -> str | None:
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        return None


def _decode_body(text: str) -> tuple[str, str] | None:
    """Return the name and the arguments of a complete call; None if it is not one for certain."""
    try:
        body = msgspec.json.decode(text, type=_Body)
        arguments = bytes(body.arguments or body.parameters).decode()
        if arguments.startswith('"'):
            arguments = msgspec.json.decode(arguments, type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    if arguments in ("", "null"):
        return body.name, "{}"
    return (body.name, arguments) if is_object(arguments) else None
