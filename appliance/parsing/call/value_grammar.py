"""Bound plain values, with what ends them, by what a schema says. Pure."""

import json
import re
from typing import Any

from appliance.chat.request import Tool
from appliance.parsing.call.plain_value import RAW
from appliance.parsing.call.spelling import edges, spell
from appliance.parsing.call.tool_schema import ToolSchema
from appliance.parsing.coercion import coerce_to, quote, value_types
from appliance.parsing.grammar.check import find_complaint
from appliance.parsing.grammar.kind import ALL_TYPES, Schema, type_of_value
from appliance.parsing.grammar.rules import Rules

_BRACKETS = re.compile(r"\\.|\[(?:\\.|[^\\\]])*+\]", re.DOTALL)
_GROUP = re.compile(r"\([^()]*\)")
_XML_MARKS = frozenset("<&\n")
_CONTROLS = r"\x00-\x07\x0b\x0e-\x1f\x7f"
"""Validators disagree on which of them are white space; JSON's strings have none here, either."""
_WORDS = {"boolean": ("True", "False"), "null": ("None",)}
_STRING = frozenset(("string",))
_BOUNDS = frozenset(("pattern", "minLength", "maxLength"))
_TYPE_ALONE = frozenset(("type", "$defs"))
_SPACE = r"\s\x1c-\x1f"
"""What Python, which reads the values, takes for white space."""
_NUMBER = (
    r"0-9+.\-",
    r"[+\-]?(?:0[xXoObB][0-9a-fA-F_]+|(?:[0-9][0-9_]*\.?|\.)[0-9_]*(?:[eE][+\-]?[0-9_]+)?)",
)
_LOOKS = {
    "integer": _NUMBER,
    "number": _NUMBER,
    "boolean": ("tfTF", "[tT]rue|[fF]alse"),
    "null": ("nN", "null|None"),
    "array": (r"\[", r"\[(?s:.*)"),
    "object": (r"\{", r"\{(?s:.*)"),
    "bracketed": (r"\(", r"\((?s:.*)\)"),
}
"""The first letters of texts that `coerce_to` may take for a value of a type, and all of such a
text but for white space and a comma behind it. Any value may stand in round brackets."""
Look = tuple[str, str]
Choice = tuple[str, str]
"""A JSON type, and what stands for the values of that type and what ends them."""


class ValueRules:
    """The rules of the values of one function's arguments.

    For a strict function a text is none that its reader takes for a value of another type.
    """

    def __init__(
        self,
        rules: Rules,
        tool: Tool,
        *,
        has_kinds: bool = False,
        has_python_words: bool = False,
        is_xml: bool = False,
    ) -> None:
        """`has_kinds`: a tag says which values are texts. `has_python_words`: True, False and None
        may be written so, too. `is_xml`: text in which XML has marks or line ends stands in CDATA.
        """
        self.rules = rules
        self.schema = ToolSchema(tool)
        self._has_kinds = has_kinds
        self._has_python_words = has_python_words
        self._raw = RAW if is_xml else None

    def choices(
        self, schema: Schema, end: str, types: frozenset[str] = frozenset()
    ) -> list[Choice]:
        """Return what a value may be, for each type that it may have; `end` is a literal.

        `types` are those that its reader expects, if there are more of them than `schema` allows.
        """
        schema = self.schema.resolve(schema)
        own = value_types(schema, self.schema.root)
        types = types or own
        if (values := self.schema.values(schema)) is not None:
            return [(type_of_value(each), self._literal(each, types, end)) for each in values]
        if (options := self.schema.options(schema)) is not None:
            return [choice for option in options for choice in self.choices(option, end, types)]
        others = own - _STRING - ({"integer"} if "number" in own else set())
        texts = [("string", self._text(schema, types, end))] if "string" in own else []
        # Where any type may be meant a word of Python is a text.
        has_words = self._has_python_words and types != ALL_TYPES
        rest = [(kind, self._json(kind, schema, end, has_words)) for kind in sorted(others)]
        return texts + rest

    def _literal(self, value: object, types: frozenset[str], end: str) -> str:
        is_text = isinstance(value, str)
        text = str(value) if is_text else json.dumps(value, ensure_ascii=False)
        read = coerce_to(text, _STRING if is_text and self._has_kinds else types)
        mark = self._raw[1] if self._raw else edges(end)[1]
        if mark in text or read != (quote(text) if is_text else text):
            self.schema.refuse(text)
        if self._raw and not _XML_MARKS.isdisjoint(text):
            text = self._raw[0] + text + self._raw[1]
        return f"{self.rules.text(text)} {spell(self.rules, end)}"

    def _json(self, kind: str, schema: dict[str, Any], end: str, has_words: bool) -> str:
        value = self.rules.json({**schema, "type": kind}, self.schema.root)
        words = map(self.rules.text, _WORDS.get(kind, ()) if has_words else ())
        return f"({' | '.join((value, *words))}) {spell(self.rules, end)}"

    def _text(self, schema: dict[str, Any], types: frozenset[str], end: str) -> str:
        self.schema.refuse(*schema.keys() & {"format", "allOf"})
        looks = self._looks_of_others(schema, types)
        if not _BOUNDS.isdisjoint(schema):
            return self._bound(schema, looks, end)
        rules, (_, mark, behind) = self.rules, edges(end)
        stop = self._raw[1] + end if self._raw else mark
        firsts = "".join(first for first, _ in looks)
        # What begins like another value can be told from it only at its end.
        first = rules.regex(rf"[{_SPACE}]*[^{_SPACE}{firsts}{re.escape(stop[0])}]") if looks else ""
        free = f"{first} {rules.until(stop)}"
        if self._raw:
            return f"({self._bound({}, looks, end)} | {rules.text(self._raw[0])} {free})"
        free = f"{free} {rules.text(behind)}"
        like = {"pattern": rf"^[{_SPACE}]*(?:[{firsts}](?s:.*))?$"}
        return f"({free} | {self._bound(like, looks, end)})" if looks else free

    def _looks_of_others(self, schema: dict[str, Any], types: frozenset[str]) -> list[Look]:
        """Return what a text may not look like."""
        others = types - _STRING
        # Where null is allowed it is never wrong, and nor is anything where types say all.
        allowed = {"null"}
        if schema.keys() <= _TYPE_ALONE:
            allowed |= value_types(schema, self.schema.root)
        if not self.schema.is_strict or self._has_kinds or others <= allowed:
            return []
        return list(dict.fromkeys(_LOOKS[each] for each in (*sorted(others), "bracketed")))

    def _bound(self, schema: dict[str, Any], looks: list[Look], end: str) -> str:
        """Return a text that has a certain length, or a pattern in it, with its end."""
        rules, (margin, mark, behind) = self.rules, edges(end)
        # No letter of it begins the mark, which would else be read as more of the text.
        letter = f"[^{''.join(_XML_MARKS) if self._raw else re.escape(mark[0])}{_CONTROLS}]"
        letters = f"{letter}{{{schema.get('minLength', 0)},{schema.get('maxLength', '')}}}"
        closing = spell(rules, mark + behind)
        plain = f"{rules.regex(letters + margin)} {closing}"
        whole = _whole_pattern(schema.get("pattern", ""))
        if not whole:
            self.schema.refuse(*schema.keys() & {"pattern"})
        demands = [rules.regex(each) for each in (letters, whole) if each]
        if looks:
            wholes = "|".join(whole for _, whole in looks)
            # The margin behind such a value is its end, and not to be taken for more of a text.
            more = f"(?:{margin}(?s:.*))?" if margin else ""
            other = f"[{_SPACE}]*(?:{wholes})[{_SPACE}]*,?[{_SPACE}]*{more}"
            demands.append(f"~{rules.regex(other)}")
        if len(demands) == 1:
            return plain
        grammar = f"start: TEXT\nTEXT: ({' & '.join(demands)}) {json.dumps(margin)}"
        if find_complaint(grammar):
            self.schema.refuse(*schema.keys() & _BOUNDS)
            return plain
        return f"{rules.lark(grammar)} {closing}"


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
