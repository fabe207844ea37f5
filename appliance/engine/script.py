"""Read a script file: the rules by which the scripted engine answers, strictly checked."""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from appliance.errors import SourceError
from appliance.manifest.quantity import parse_duration


class _RuleText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    match: str
    pieces: list[str]
    finish: Literal["stop", "length"] = "stop"
    first_delay: str | float = 0.0
    piece_delay: str | float = 0.0
    fail_at: Annotated[int, msgspec.Meta(ge=0)] | None = None
    repeat: Annotated[int, msgspec.Meta(ge=1)] = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What to emit: `pieces`, `repeat` times over; delays in seconds.

    `fail_at` counts from 0 over everything emitted: the engine fails in the place of that piece;
    the number of all pieces means in the place of the finish.
    """

    pieces: tuple[str, ...]
    finish: Literal["stop", "length"] = "stop"
    first_delay: float = 0.0
    piece_delay: float = 0.0
    fail_at: int | None = None
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Rule:
    """An answer and the last user messages it is for."""

    pattern: re.Pattern[str]
    answer: Answer


class Script:
    """The rules of one file. A value: it never changes."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules

    def answer(self, message: str) -> Answer:
        """Return the first matching rule's answer, or an echo of `message` word by word."""
        for rule in self._rules:
            if rule.pattern.search(message):
                return rule.answer
        return Answer(pieces=tuple(re.findall(r"\s*\S+\s*|\s+", message)))


def load_script(path: Path) -> Script:
    """Read a script file; raises SourceError naming the file and the rule (counted from 1)."""
    try:
        nodes = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise SourceError(str(path), error.strerror or str(error)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SourceError(str(path), f"not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(nodes, list):
        raise SourceError(str(path), "a script is a list of rules")
    rules = []
    for number, node in enumerate(nodes, start=1):
        try:
            rules.append(_parse_rule(node))
        except ValueError as error:
            raise SourceError(str(path), f"rule {number}: {error}") from error
    return Script(tuple(rules))


def _parse_rule(node: object) -> Rule:
    text = msgspec.convert(node, _RuleText)
    try:
        pattern = re.compile(text.match)
    except re.error as error:
        raise ValueError(f"match: not a regular expression: {error}") from error
    if not all(_is_unicode(piece) for piece in text.pieces):
        raise ValueError("pieces: hold half of a surrogate pair, which is no character")
    total = len(text.pieces) * text.repeat
    if text.fail_at is not None and text.fail_at > total:
        raise ValueError(f"fail_at: {text.fail_at}, but the answer has only {total} pieces")
    answer = Answer(
        pieces=tuple(text.pieces),
        finish=text.finish,
        first_delay=_parse_delay("first_delay", text.first_delay),
        piece_delay=_parse_delay("piece_delay", text.piece_delay),
        fail_at=text.fail_at,
        repeat=text.repeat,
    )
    return Rule(pattern, answer)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _parse_delay(field: str, value: str | float) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error


class _StrictLoader(yaml.SafeLoader):
    """PyYAML accepts repeated keys silently; this one does not."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' is repeated", node.start_mark
                )
        return super().construct_mapping(node, deep)
