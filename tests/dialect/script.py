"""Write script files for the scripted engine."""

import json
from collections.abc import Iterable

# YAML takes these for line ends, even within quotes.
_LINE_ENDS = str.maketrans({"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def rule(match: str, pieces: Iterable[str], **fields: object) -> dict[str, object]:
    """Return one rule: what the model says where `match` is found in the last message."""
    return {"match": match, "pieces": list(pieces), **fields}


def cut(text: str, size: int) -> list[str]:
    """Return a text in pieces of a size."""
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def script_text(rules: Iterable[dict[str, object]]) -> str:
    """Return the file of some rules. It is JSON, which YAML includes but for surrogate pairs."""
    return json.dumps(list(rules), ensure_ascii=False).translate(_LINE_ENDS)
