"""Bound a call by the JSON Schema of its arguments where these are literals, not JSON. Pure."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from appliance.chat.request import Tool
from appliance.parsing.call.tool_schema import ToolSchema
from appliance.parsing.grammar.kind import KEYWORDS, TYPES
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.toolbox import Toolbox

_TEXT_KEYWORDS = frozenset(KEYWORDS["string"])
_NUMBER_KEYWORDS = frozenset(KEYWORDS["number"])
_UNSPOKEN = frozenset(("allOf", "prefixItems"))


@dataclass(frozen=True, slots=True)
class Notation:
    """How one family writes a call and the values in it.

    `call` stands before a name, behind it, and behind the arguments; `sign` between an argument and
    its value, `colon` and `comma` in the values. `constants` are true, false and nothing. `quote`
    stands round a string, which else is written as in JSON. What matches `name` needs no quotes as
    the name of an argument, nor (with `has_plain_names`) of a value in an object.
    """

    call: tuple[str, str, str]
    sign: str
    colon: str
    comma: str
    constants: tuple[str, str, str]
    name: str
    quote: str = ""
    has_plain_names: bool = False
    sorts_names: bool = False


PYTHON_NOTATION = Notation(
    call=("", "(", ")"),
    sign="=",
    colon=": ",
    comma=", ",
    constants=("True", "False", "None"),
    name=r"[A-Za-z_][A-Za-z0-9_\-]{0,127}",
)


def call_rule(rules: Rules, tools: Toolbox, notation: Notation) -> str:
    """Add rules for a call of one of `tools` and return the name of its rule.

    Their schemas are in the form of `appliance.parsing.grammar.schema`. What no rule here can say
    is left out, but refused for a strict function (InvalidRequest, with the keyword).
    """
    calls = [_CallRules(rules, notation, tool).call() for tool in tools.tools]
    return rules.rule(" | ".join(calls))


class _CallRules:
    """The rules of calls of one function."""

    def __init__(self, rules: Rules, notation: Notation, tool: Tool) -> None:
        self._rules = rules
        self._notation = notation
        self._schema = ToolSchema(tool)

    def call(self) -> str:
        """Add the rule of a call."""
        prefix, opening, closing = self._notation.call
        head = self._rules.text(f"{prefix}{self._schema.name}{opening}")
        arguments = self._members(self._schema.root, self._argument, self._free_argument)
        return self._rules.rule(f"{head} {arguments} {self._rules.text(closing)}")

    # --- objects ---

    def _members(
        self,
        schema: dict[str, Any],
        member: Callable[[str, str], str | None],
        free: Callable[[str], str],
    ) -> str:
        """Return what stands between the brackets of an object."""
        properties, required, others = self._schema.members(schema)
        names = list(properties)
        if not names:
            return self._many(free(self.value(others))) if others else self._rules.text("")
        if self._notation.sorts_names:
            names.sort(key=str.lower)
        members = []
        for name in names:
            if (body := member(name, self.value(properties[name]))) is not None:
                members.append((body, name in required))
            elif name in required:
                self._schema.refuse("required")
        return self._sequence(members)

    def _sequence(self, members: list[tuple[str, bool]]) -> str:
        """Return the members in their order, each that is not required there or not."""
        first = rest = self._rules.text("")
        comma = self._rules.text(self._notation.comma)
        for body, is_required in reversed(members):
            begin, go_on = f"{body} {rest}", f"{comma} {body} {rest}"
            first = self._rules.rule(begin if is_required else f"{begin} | {first}")
            rest = self._rules.rule(go_on if is_required else f"{go_on} | {rest}")
        return first

    def _argument(self, name: str, value: str) -> str | None:
        if self._notation.has_plain_names:
            return self._pair(name, value)
        if not re.fullmatch(self._notation.name, name):
            return None
        return f"{self._rules.text(name + self._notation.sign)} {value}"

    def _free_argument(self, value: str) -> str:
        name = self._rules.regex(self._notation.name)
        return f"{name} {self._rules.text(self._notation.sign)} {value}"

    def _pair(self, name: str, value: str) -> str:
        notation, rules = self._notation, self._rules
        if notation.has_plain_names and re.fullmatch(notation.name, name):
            return f"{rules.text(name + notation.colon)} {value}"
        return f"{self._literal(name)} {rules.text(notation.colon)} {value}"

    def _free_pair(self, value: str) -> str:
        if self._notation.has_plain_names:
            return self._free_argument(value)
        return f"{self._text({})} {self._rules.text(self._notation.colon)} {value}"

    def _many(self, body: str, least: int = 0, most: int | None = None) -> str:
        """Return so many of one kind, with commas."""
        comma = self._rules.text(self._notation.comma)
        if most == 0:
            return self._rules.text("")
        bounds = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
        whole = body if most == 1 else f"{body} ({comma} {body}){bounds}"
        return f"({whole})" if least else f"({whole})?"

    # --- values ---

    def value(self, schema: object) -> str:
        """Add the rule of a value, which may be part of itself, and return its name."""
        if not isinstance(schema, dict):
            schema = {}
        text = json.dumps(schema, sort_keys=True)
        owner = self._schema.name if self._schema.is_strict or '"$ref"' in text else ""
        key = (self._notation, owner, text)
        return self._rules.named(key, lambda: " | ".join(self._kinds(self._schema.resolve(schema))))

    def _kinds(self, schema: dict[str, Any]) -> Iterable[str]:
        self._schema.refuse(*_UNSPOKEN & schema.keys())
        if (values := self._schema.values(schema)) is not None:
            return map(self._literal, values)
        if (options := self._schema.options(schema)) is not None:
            return map(self.value, options)
        types = schema.get("type", TYPES)
        types = [types] if isinstance(types, str) else types
        return list(dict.fromkeys(self._of_type(each, schema) for each in types))

    def _of_type(self, kind: str, schema: dict[str, Any]) -> str:
        true, false, nothing = map(self._rules.text, self._notation.constants)
        match kind:
            case "string":
                return self._text(schema)
            case "boolean":
                return f"{true} | {false}"
            case "null":
                return nothing
            case "array":
                item, least = schema.get("items", True), schema.get("minItems", 0)
                most = 0 if self._schema.is_never(item) else schema.get("maxItems")
                return f'"[" {self._many(self.value(item), least, most)} "]"'
            case "object":
                return f'"{{" {self._members(schema, self._pair, self._free_pair)} "}}"'
            case _:
                return self._rules.json({"type": kind} | _only(_NUMBER_KEYWORDS, schema))

    def _text(self, schema: dict[str, Any]) -> str:
        quote = self._notation.quote
        if not quote:
            return self._rules.json({"type": "string"} | _only(_TEXT_KEYWORDS, schema))
        self._schema.refuse(*_TEXT_KEYWORDS & schema.keys())
        return f"{self._rules.mark(quote)} {self._rules.until(quote)}"

    def _literal(self, value: object) -> str:
        """Return the one way in which a value is written."""
        notation, rules = self._notation, self._rules
        match value:
            case bool() | None:
                return rules.text(notation.constants[(True, False, None).index(value)])
            case str() if notation.quote:
                if notation.quote in value:
                    self._schema.refuse(value)
                mark = rules.mark(notation.quote)
                return f"{mark} {rules.text(value)} {mark}"
            case list():
                items = f" {rules.text(notation.comma)} ".join(map(self._literal, value))
                return f'"[" {items} "]"'
            case dict():
                pairs = (self._pair(key, self._literal(each)) for key, each in value.items())
                return f'"{{" {f" {rules.text(notation.comma)} ".join(pairs)} "}}"'
            case _:
                return rules.text(json.dumps(value, ensure_ascii=False))


def _only(keywords: frozenset[str], schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key in keywords}
