"""Bound plain values, with what ends them, by what a schema says. Pure."""

import json
import re
from typing import Any

from appliance.chat.request import Tool
from appliance.parsing.call.plain_value import RAW
from appliance.parsing.call.tool_schema import ToolSchema
from appliance.parsing.coercion import Schema, type_of_value, value_types
from appliance.parsing.grammar.check import find_complaint
from appliance.parsing.grammar.rules import Rules

_EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)
_BRACKETS = re.compile(r"\\.|\[(?:\\.|[^\]])*\]", re.DOTALL)
_GROUP = re.compile(r"\([^()]*\)")
_XML_MARKS = frozenset("<&\n")
_WORDS = {"boolean": ("True", "False"), "null": ("None",)}
Choice = tuple[str, str]
"""A JSON type, and what stands for the values of that type and what ends them."""


def edges(literal: str) -> tuple[str, str, str]:
    """Return the white space before a template's literal, what is in it, and that behind it."""
    found = _EDGES.fullmatch(literal)
    return (found[1], found[2], found[3]) if found else ("", literal, "")


def spell(rules: Rules, *literals: str) -> str:
    """Return what stands for literals in a row, of which tags may be tokens of the model."""
    words = []
    for literal in literals:
        before, core, behind = edges(literal)
        is_tag = not {"<", "]"}.isdisjoint(core)
        words += [rules.text(before), rules.mark(core)] if is_tag else [rules.text(before + core)]
        words.append(rules.text(behind))
    return " ".join(word for word in words if word != rules.text(""))


class ValueRules:
    """The rules of the values of one function's arguments."""

    def __init__(
        self, rules: Rules, tool: Tool, *, has_python_words: bool = False, is_xml: bool = False
    ) -> None:
        """`has_python_words`: True, False and None may be written so, too. `is_xml`: text in which
        XML has marks or line ends stands in CDATA.
        """
        self.rules = rules
        self.schema = ToolSchema(tool)
        self._has_python_words = has_python_words
        self._raw = RAW if is_xml else None

    def choices(self, schema: Schema, end: str) -> list[Choice]:
        """Return what a value may be, for each type that it may have; `end` is a literal."""
        schema = self.schema.resolve(schema)
        if (values := self.schema.values(schema)) is not None:
            return [(type_of_value(each), self._literal(each, end)) for each in values]
        if (options := self.schema.options(schema)) is not None:
            return [choice for option in options for choice in self.choices(option, end)]
        types = value_types(schema, self.schema.root)
        others = types - {"string"} - ({"integer"} if "number" in types else set())
        texts = [("string", self._text(schema, end))] if "string" in types else []
        return [*texts, *((kind, self._json(kind, schema, end)) for kind in sorted(others))]

    def _literal(self, value: object, end: str) -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if self._raw and not _XML_MARKS.isdisjoint(text):
            text = self._raw[0] + text + self._raw[1]
        return f"{self.rules.text(text)} {spell(self.rules, end)}"

    def _json(self, kind: str, schema: dict[str, Any], end: str) -> str:
        value = self.rules.json({**schema, "type": kind}, self.schema.root)
        words = map(self.rules.text, _WORDS.get(kind, ()) if self._has_python_words else ())
        return f"({' | '.join((value, *words))}) {spell(self.rules, end)}"

    def _text(self, schema: dict[str, Any], end: str) -> str:
        rules, (before, mark, behind) = self.rules, edges(end)
        self.schema.refuse(*schema.keys() & {"format", "allOf"})
        # No letter of it begins the mark, which would else be read as more of the text.
        letter = f"[^{''.join(_XML_MARKS) if self._raw else re.escape(mark[0])}]"
        if "pattern" in schema or "minLength" in schema or "maxLength" in schema:
            return f"{self._bound(schema, letter, before)} {spell(rules, mark + behind)}"
        if self._raw is None:
            return f"{rules.until(mark)} {rules.text(behind)}"
        plain = f"{rules.regex(f'{letter}*')} {spell(rules, end)}"
        return f"({plain} | {rules.text(self._raw[0])} {rules.until(self._raw[1] + end)})"

    def _bound(self, schema: dict[str, Any], letter: str, behind: str) -> str:
        """Return a text of certain letters that has a certain length, or a pattern in it."""
        least, most = schema.get("minLength", 0), schema.get("maxLength", "")
        letters = f"{letter}{{{least},{most}}}"
        plain = self.rules.regex(letters + behind)
        whole = _whole_pattern(schema.get("pattern", ""))
        if not whole:
            self.schema.refuse(*schema.keys() & {"pattern"})
            return plain
        margin = json.dumps(behind) if behind else ""
        text = f"({self.rules.regex(whole)} & {self.rules.regex(letters)}) {margin}"
        grammar = f"start: TEXT\nTEXT: {text}"
        if find_complaint(grammar):
            self.schema.refuse("pattern")
            return plain
        return self.rules.lark(grammar)


def _whole_pattern(pattern: str) -> str:
    """Return what matches the whole of the texts that a pattern is found in; "" if that is hard."""
    body = pattern.removeprefix("^")
    before = "(?s:.*)" if body == pattern else ""
    is_end = body.endswith("$") and not body.endswith(r"\$")
    body = body[:-1] if is_end else body
    if (is_end or not before) and "|" in _outermost(body):
        return ""
    return f"{before}(?:{body}){'' if is_end else '(?s:.*)'}" if pattern else ""


def _outermost(pattern: str) -> str:
    """Return what of a pattern stands in no brackets."""
    pattern, inner = _BRACKETS.sub("", pattern), None
    while pattern != inner:
        inner, pattern = pattern, _GROUP.sub("", pattern)
    return pattern
