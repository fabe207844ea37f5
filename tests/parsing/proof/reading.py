"""Read an answer, cut anywhere, and compare what came of it and where its reader stands."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from appliance.parsing.format import AnswerFormat
from appliance.parsing.lexis import Lexis
from appliance.parsing.parsed import CallArguments, CallClosed, CallOpened, Parsed, Text, Thought
from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox
from tests.parsing.proof.call_set import CallSet

_FIXED = (AnswerFormat, Lexis, type, re.Pattern)
_NO_STATE = frozenset({"taken"})
"""What a reader's last step gave: every step sets it anew."""


@dataclass
class Heard:
    """What came of an answer. `calls` are names with arguments as JSON text, `texts` what was said
    between them; all of it in its order."""

    thought: str = ""
    texts: list[str] = field(default_factory=lambda: [""])
    calls: list[list[str]] = field(default_factory=list)
    is_sound: bool = True

    def add(self, pieces: Iterable[Parsed]) -> None:
        for piece in pieces:
            match piece:
                case Text():
                    self.texts[-1] += piece.text
                case Thought():
                    self.thought += piece.text
                case CallOpened():
                    self.calls.append([piece.name, ""])
                    self.texts.append("")
                case CallArguments():
                    self.calls[-1][1] += piece.text
                case CallClosed():
                    self.is_sound &= piece.is_sound

    def meaning(self) -> dict[str, Any]:
        """Return it with arguments as values whose order counts."""
        calls = [(name, _ordered(msgspec.json.decode(text))) for name, text in self.calls]
        said = {"before": self.texts[0], "between": "".join(self.texts[1:-1])}
        after = self.texts[-1] if self.calls else ""
        return said | {"thought": self.thought, "calls": calls, "after": after}


def meant(each: CallSet, *, sorts: bool = False) -> dict[str, Any]:
    """Return what reading an answer should find, in the shape of `Heard.meaning`.

    `sorts`: of a family that writes members in the order of their names.
    """
    calls = [(name, _ordered(arguments, sorts=sorts)) for name, arguments in each.calls]
    said = {"before": each.before, "between": "", "after": each.after}
    return said | {"thought": each.thought, "calls": calls}


def hear(parser: AnswerParser, texts: Iterable[str]) -> Heard:
    """Return what an answer that comes in these pieces says."""
    heard = Heard()
    for text in texts:
        heard.add(parser.feed(text))
    heard.add(parser.end())
    return heard


def state(thing: object) -> object:
    """Return where a reader stands, so that two of them can be compared.

    A list of texts is what they say together, however they were cut.
    """
    if isinstance(thing, list | tuple):
        if all(isinstance(each, str) for each in thing):
            return "".join(thing)
        return [state(each) for each in thing]
    if isinstance(thing, dict):
        return {key: state(value) for key, value in thing.items()}
    if isinstance(thing, Toolbox):
        return thing.names
    fields = _fields(thing)
    if isinstance(thing, _FIXED) or not fields:
        return thing
    return type(thing).__name__, {name: state(value) for name, value in fields.items()}


def _fields(thing: object) -> dict[str, Any]:
    names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    names += getattr(thing, "__dict__", {})
    return {name: getattr(thing, name) for name in names if name not in _NO_STATE}


def _ordered(value: Any, *, sorts: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value in which the order of keys counts, and 1 is neither 1.0 nor True."""
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda it: it[0].lower()) if sorts else value.items()
        return [(key, _ordered(each, sorts=sorts)) for key, each in members]
    if isinstance(value, list):
        return ["list", *(_ordered(each, sorts=sorts) for each in value)]
    return type(value).__name__, value
