"""Find marks in a text that comes in pieces, one of which may end inside a mark."""

import re
from functools import cache


def mark_pattern(*marks: str) -> str:
    """Return a regular expression for any of the marks, or the start of one at the text's end."""
    starts = {mark[:size] for mark in marks for size in range(1, len(mark))}
    return f"{_any(marks)}|(?:{_any(starts)})\\Z" if marks else "(?!)"


@cache
def mark_finder(*marks: str) -> re.Pattern[str]:
    """Return what `mark_pattern` describes, ready for use."""
    return re.compile(mark_pattern(*marks))


def _any(texts: "set[str] | tuple[str, ...]") -> str:
    return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
