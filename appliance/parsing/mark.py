"""Find marks in a text that comes in pieces, one of which may end inside a mark."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


def mark_pattern(*marks: str) -> str:
    """Return a regular expression for any of the marks, or the start of one at the text's end.

    Of marks that begin with each other it is for the longest.
    """
    if not marks:
        return "(?!)"
    begun = _starts(marks)
    return f"(?:{_any(begun)})\\Z|{_any(marks)}" if begun else _any(marks)


@lru_cache(maxsize=1024)
def mark_finder(*marks: str) -> re.Pattern[str]:
    """Return what `mark_pattern` describes, ready for use."""
    return re.compile(mark_pattern(*marks))


class Found(NamedTuple):
    """A mark in a text, or (not `is_whole`) what ends the text and may become one."""

    mark: str
    start: int
    is_whole: bool


class MarkFinder:
    """Finds the first of some marks, and of those that begin there the longest."""

    def __init__(self, marks: Iterable[str]) -> None:
        marks = tuple(filter(None, marks))
        firsts = re.escape("".join(sorted({mark[0] for mark in marks})))
        self.outside = f"[^{firsts}]" if firsts else r"[\s\S]"
        """A pattern for a character with which none of them begins."""
        self._starts = _starts(marks)
        self._any = re.compile(mark_pattern(*marks))
        self._whole = re.compile(_any(marks) or "(?!)")

    def find(self, text: str, at: int, *, is_last: bool) -> Found | None:
        """Return the first mark from `at` on, or what may become one if more text comes.

        The start of a mark that ends the text is one, too, if it is a mark itself.
        """
        match = (self._whole if is_last else self._any).search(text, at)
        if match is None:
            return None
        is_begun = match.end() == len(text) and match[0] in self._starts
        return Found(match[0], match.start(), is_last or not is_begun)


def _starts(marks: Iterable[str]) -> set[str]:
    return {mark[:size] for mark in marks for size in range(1, len(mark))}


@lru_cache(maxsize=1024)
def plain_text(*marks: str) -> re.Pattern[str]:
    """Return what a text matches in full that no mark is in and that is the same in JSON."""
    firsts = re.escape("".join(sorted({mark[0] for mark in marks})))
    return re.compile(rf'[^{firsts}"\\\x00-\x1f\ud800-\udfff]+\Z')


def _any(texts: Iterable[str]) -> str:
    return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
