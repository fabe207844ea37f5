"""Pass over JSON values of any length. Pure."""

import re
from functools import lru_cache

from appliance.parsing.mark import MarkFinder

_SIGNS = ('"', "{", "[", "}", "]")
_IN_STRING = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_WORD = re.compile(r"[-+.\w]*")


class ValuePasser:
    """Passes over one value, of which it keeps nothing.

    `first` is the character that the value begins with. One of `marks`, outside of strings, ends it
    early.
    """

    def __init__(self, first: str, marks: tuple[str, ...]) -> None:
        self.is_done = False
        self._is_word = first not in _SIGNS
        self._finder = _finder(marks)
        self._is_in_string = False
        self._depth = 0

    def read(self, text: str, at: int) -> int:
        """Read on from `at` and return how far it came; what is left is wanted again, with more."""
        if self._is_word:
            found = _WORD.match(text, at)
            at = found.end() if found else at
            self.is_done = at < len(text)
        before = -1
        while before < at < len(text) and not self.is_done:
            before = at
            at = self._read_string(text, at) if self._is_in_string else self._read_sign(text, at)
        return at

    def _read_string(self, text: str, at: int) -> int:
        found = _IN_STRING.match(text, at)
        at = found.end() if found else at
        if not text.startswith('"', at):
            return at
        self._is_in_string = False
        self.is_done = self._depth == 0
        return at + 1

    def _read_sign(self, text: str, at: int) -> int:
        found = self._finder.find(text, at, is_last=False)
        if found is None:
            return len(text)
        if not found.is_whole:
            return found.start
        if found.mark not in _SIGNS:
            self.is_done = True
            return found.start
        self._is_in_string = found.mark == '"'
        self._depth += (found.mark in _SIGNS[1:3]) - (found.mark in _SIGNS[3:])
        self.is_done = self._depth == 0 and not self._is_in_string
        return found.start + 1


@lru_cache(maxsize=64)
def _finder(marks: tuple[str, ...]) -> MarkFinder:
    return MarkFinder((*marks, *_SIGNS))
