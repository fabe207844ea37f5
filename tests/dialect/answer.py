"""Say what an answer is, whichever dialect brought it, and read a stream's events strictly."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

Json = dict[str, Any]


class Call(NamedTuple):
    """A call; `arguments` is what their JSON says, or the text itself where it is none."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class Answer:
    """An answer as a whole, and how it came.

    `kinds` are its items in order, in a dialect that has items. `usage` is the tokens of the
    prompt and of the answer. `deltas` are the pieces of a stream: its text, thoughts and arguments.
    """

    text: str
    thought: str
    calls: tuple[Call, ...]
    finish: str
    usage: tuple[int, int]
    kinds: tuple[str, ...] = ()
    ids: tuple[str, ...] = field(default=(), compare=False)
    deltas: tuple[str, ...] = field(default=(), compare=False)

    @property
    def said(self) -> "Answer":
        """The same without what only some dialects say."""
        return replace(self, kinds=())


@dataclass(frozen=True)
class Dialect:
    """One way to ask and to answer: a path, a body for a text, and its two kinds of answers."""

    name: str
    path: str
    ask: Callable[[str, Json], Json]
    read_whole: Callable[[Json], Answer]
    read_stream: Callable[[str], Answer]
    stream_fields: Json = field(default_factory=lambda: {"stream": True})


class Event(NamedTuple):
    """One event of a stream; `name` None where the dialect names none."""

    name: str | None
    data: Any


def read_events(raw: str) -> list[Event]:
    """Parse a whole stream of events, each of one line of JSON; comments are dropped."""
    assert raw.endswith("\n\n"), f"the last event is not complete: {raw[-200:]!r}"
    events = []
    for block in raw.removesuffix("\n\n").split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if not lines:
            continue
        name = lines.pop(0).removeprefix("event: ") if lines[0].startswith("event: ") else None
        assert len(lines) == 1 and lines[0].startswith("data: "), block
        data = lines[0].removeprefix("data: ")
        events.append(Event(name, data if data == "[DONE]" else json.loads(data)))
    return events


def parse_arguments(text: str) -> object:
    """Return what the arguments of a call say, or their text where that is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def tool_schema() -> Json:
    """Return the schema of a tool that takes anything."""
    return {"type": "object", "properties": {"text": {"type": "string"}}}


TOOLS = ("f", "read_file")
"""The names of the tools that are offered."""
