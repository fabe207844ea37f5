"""Read the recorded shapes: what well-known clients send, and what a model answers to it."""

import json
from pathlib import Path
from typing import Any

from tests.dialect.answer import Answer, Call
from tests.dialect.script import rule, script_text

_FOLDER = Path(__file__).parent / "testdata"

SHAPES: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text(encoding="utf-8")) for file in _FOLDER.glob("*.json")
}
"""Every shape by its name.

`match` finds the last message of the body, `pieces` are what the model then says, and `expected` is
what a client must make of it. The body of one that `follows` another names the other's answer as
`{response}` and its first call as `{call}`.
"""

GENERATING = sorted(name for name, shape in SHAPES.items() if not shape.get("counts"))
COUNTING = sorted(SHAPES.keys() - GENERATING)


def models() -> list[str]:
    """Return every name that clients call the model."""
    return sorted({shape["body"]["model"] for shape in SHAPES.values()})


def script() -> str:
    """Return a script that answers every shape."""
    return script_text(rule(shape["match"], shape["pieces"]) for shape in SHAPES.values())


def is_as_expected(answer: Answer, expected: dict[str, Any]) -> bool:
    """Say whether an answer is what a shape's client must see."""
    calls = tuple(Call(name, arguments) for name, arguments in expected["calls"])
    seen = (answer.text, answer.thought, answer.calls, answer.finish)
    finish = "tool_calls" if calls else "stop"
    return seen == (expected["text"], expected["thought"], calls, finish)
