"""Collect the rules of one grammar, in llguidance's dialect of Lark. Pure."""

import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

from llguidance import regex_to_lark

from appliance.chat.grammar import ANY_TEXT, Grammar

_TEXT_OR_BAR = re.compile(r'"(?:\\.|[^"\\])*+"| \| ')
_LED = re.compile(
    r"""(?:mark_(?P<mark>\d+)|(?P<text>"(?:\\.|[^"\\])*")|(?P<rule>rule_\d+)(?P<more>\+?)"""
    r"""|\((?P<optional>mark_\d+[^()]*)\)\?)(?P<rest>(?: .*)?)"""
)
"""An option by what it begins with."""
_SHARED = ("$defs", "definitions")
_JSON_STYLE = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
    "json_allowed_escapes": 'nrbtf\\"',
}
"""How JSON is written: a space may stand behind `,` and `:`, as most templates have it, and nowhere
else, so that no model goes on with white space for ever, and so that all rules share one class of
lexemes, which lets llguidance follow several alternatives at once. No `\\u0061`: a key that is
written so would pass for another than it is."""


def styled_schema(schema: dict[str, Any]) -> str:
    """Return what stands behind `%json`: a schema that says how its values are written, too."""
    return json.dumps({"x-guidance": _JSON_STYLE, **schema})


class Rules:
    """The rules of one grammar under construction. One instance per grammar.

    What its methods return may stand in the body of a `rule`, beside `|`, `( )`, `?`, `*`, `+`.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._named: dict[Hashable, tuple[str, str]] = {}
        self._marks: list[str] = []

    def rule(self, body: str) -> str:
        """Add a rule, or find one that has the same body, and return its name.

        One whose body is a single regular expression is one lexeme, which is fast; the others are
        made of those that their bodies name.
        """
        return self._names.setdefault(body, f"rule_{len(self._names)}")

    def named(self, key: Hashable, body: Callable[[], str]) -> str:
        """Add the rule of a key once and return its name; its body may ask for the same key."""
        if key not in self._named:
            self._named[key] = (name := f"named_{len(self._named)}", "")
            self._named[key] = (name, body())
        return self._named[key][0]

    def text(self, literal: str) -> str:
        """Return a text that stands for itself; any characters, or none."""
        return json.dumps(literal)

    def regex(self, pattern: str) -> str:
        r"""Return what a regular expression matches in full, as Rust writes them: no looking round,
        no references back; `.` is no line end without `(?s)`. `\d` are the digits 0 to 9."""
        return _regex(pattern) if pattern else self.text("")

    def mark(self, text: str) -> str:
        """Return a mark, which may be a special token of the model."""
        return f"mark_{self._number(text)}"

    def until(self, text: str) -> str:
        """Return any text up to the first such mark, and the mark."""
        return f"until_{self._number(text)}"

    def json(self, schema: dict[str, Any] | bool, root: dict[str, Any] | None = None) -> str:
        """Add a rule for a JSON value that is valid for `schema`, and return its name.

        `root` is the schema that this one is a part of, whose `$defs` it may refer to. Schemas of
        callers are to be brought into the form of `appliance.parsing.grammar.schema` beforehand.
        """
        whole = schema if isinstance(schema, dict) else {} if schema else {"not": {}}
        shared = {key: part for key, part in (root or {}).items() if key in _SHARED}
        return self.rule(f"%json {styled_schema({**shared, **whole})}")

    def lark(self, grammar: str) -> str:
        """Add a rule for a whole grammar with names and a `start` of its own; return its name."""
        return self.rule(f"%lark {{\n{grammar}\n}}")

    def text_without(self, marks: Collection[str], starts: Collection[str] = ()) -> str:
        """Return any text in which none of the marks stands as plain text, and that begins with
        none of the starts, white space aside."""
        return self._names.setdefault(_without(marks, starts), f"TEXT_{len(self._names)}")

    def after_text(self, name: str, openings: Iterable[str]) -> str:
        """Add a rule for text and, behind it, what `name` allows, which begins with one of the
        openings; return its name. That text has none of the marks that `build` is given."""
        bodies = {name: body for body, name in self._names.items()}
        marks = sorted(openings, key=len, reverse=True)
        options = _options(bodies.get(name, name))
        return self.rule(" | ".join(self._after_text(each, marks) for each in options))

    def _after_text(self, option: str, openings: list[str]) -> str:
        parts = _LED.fullmatch(option.strip())
        assert parts is not None, option
        rest = parts["rest"]
        if parts["optional"]:
            ways = (f"{parts['optional']}{rest}", rest)
            return f"({' | '.join(self._after_text(way, openings) for way in ways)})"
        if parts["mark"]:
            return f"speech_{parts['mark']}{rest}"
        if parts["text"]:
            text = json.loads(parts["text"])
            opening = next(filter(text.startswith, openings))
            after = self.text(text.removeprefix(opening))
            return f"speech_{self._number(opening)} {after}{rest}"
        more = f" {parts['rule']}*" if parts["more"] else ""
        return f"{self.after_text(parts['rule'], openings)}{more}{rest}"

    def build(self, start: str, marks: Collection[str] = ()) -> Grammar:
        """Return the grammar of which `start` is the body of the first rule.

        `marks` do not stand in text before a call; see `after_text`.
        """
        lines = [f"{name}: {body}" for body, name in self._names.items()]
        lines += [f"{name}: {body}" for name, body in self._named.values()]
        lark = "\n".join([f"start: {start}", *lines])
        return Grammar(lark, tuple(self._marks), _without(marks))

    def _number(self, mark: str) -> int:
        if mark not in self._marks:
            self._marks.append(mark)
        return self._marks.index(mark)


def _options(body: str) -> list[str]:
    """Return what stands between the bars that are in no text."""
    bars = [bar.span() for bar in _TEXT_OR_BAR.finditer(body) if bar[0] == " | "]
    starts, ends = [0, *(end for _, end in bars)], [*(start for start, _ in bars), len(body)]
    return [body[start:end] for start, end in zip(starts, ends, strict=True)]


def _regex(pattern: str) -> str:
    return f"/{regex_to_lark(pattern, 'd')}/"


def _without(marks: Collection[str], starts: Collection[str] = ()) -> str:
    """Return the body of a terminal; see `Rules.text_without`."""
    # One expression for all: of several negated ones llguidance follows every combination.
    bad = [
        *(f"(?s:.*){re.escape(mark)}" for mark in marks),
        *(rf"[ \t\r\n]*{re.escape(start)}" for start in starts),
    ]
    either = "|".join(bad)
    return f"{ANY_TEXT} & ~{_regex(f'(?:{either})(?s:.*)')}" if bad else ANY_TEXT
