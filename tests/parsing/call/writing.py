"""Read answers whose calls are written in given ways, before any format has them, and compare."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.chat.request import Tool
from appliance.parsing.format import AnswerFormat
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import Part, fold, read_pieces, splits

TOOLBOX = Toolbox(
    [
        Tool("find", parameters={"type": "object", "properties": {"city": {"type": "string"}}}),
        Tool(
            "set",
            parameters={
                "type": "object",
                "properties": {"n": {"type": "integer"}, "items": {"type": "array"}, "x": {}},
            },
        ),
        Tool("now"),
    ]
)


@dataclass(frozen=True)
class Writing(AnswerFormat):
    """A format of nothing but some ways of writing calls."""

    calls: tuple[CallSyntax, ...] = ()

    def syntaxes(self, *, has_tools: bool) -> tuple[CallSyntax, ...]:
        return self.calls if has_tools else ()


def read_calls(text: str, *calls: CallSyntax, toolbox: Toolbox = TOOLBOX) -> list[Part]:
    """Return what is read, once it is the same for every cut in two and for single characters."""
    form = Writing(calls=calls)
    whole = fold(read_pieces([text], form, toolbox))
    for pieces in splits(text):
        assert fold(read_pieces(pieces, form, toolbox)) == whole, pieces
    return whole


def sound(name: str, **arguments: object) -> list[Part]:
    """Return what a sound call is read as."""
    text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return [("call", name), ("arguments", text), ("end", "sound")]


def is_linear(read: Callable[[str], object], text: str) -> bool:
    """Say whether reading takes time in proportion to the text, as a quarter of it tells."""
    quarter, whole = (_seconds(read, text[: len(text) // share]) for share in (4, 1))
    return whole < 8 * quarter + 0.1


def _seconds(read: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    read(text)
    return time.process_time() - begun
