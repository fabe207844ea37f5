"""Say what each keyword of a JSON Schema may be, so that what it demands can be enforced. Pure.

`read_keyword` knows those that hold no schemas. What is here follows llguidance 1.9 and Draft
2020-12, with the older drafts' spellings of the same things.
"""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from appliance.parsing.grammar.check import find_complaint
from appliance.parsing.grammar.kind import ALL_TYPES
from appliance.parsing.grammar.rules import Rules

MOST_PROPERTIES = 1000
"""How many properties one object may name."""
_LONGEST_PATTERN = 4_000
_MOST_EXACT = 2**53
_MOST_MULTIPLE = 10_000
_MOST_PARTS = 16
_DEEPEST_VALUE = 30
_FORMATS = (
    *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"),
)
_OTHER_FORMATS = (
    *("idn-email", "idn-hostname", "iri", "iri-reference", "json-pointer", "regex"),
    *("relative-json-pointer", "uri-reference", "uri-template"),
)
_UNWRITABLE = re.compile("[\x00-\x07\x0b\x0e-\x1f\x7f]")
_PATTERN_PART = re.compile(r"\\.|\[\^?|.", re.DOTALL)
_IN_ALL_DIALECTS = {r"\D": r"\P{Nd}", r"\W": r"[^\p{L}\p{M}\p{N}_]"}
"""What engines disagree about, as that on which all agree; of text behind a backslash."""


class Unenforceable(Exception):
    """A keyword demands what no grammar can; `reason` goes on from its name."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Demands = dict[str, Any]


def read_keyword(name: str, schema: dict[str, Any]) -> Demands | None:
    """Return what the keyword of a schema demands, in llguidance's terms; {}: nothing at all.

    None: it is none of the keywords that are known here. Raises Unenforceable.
    """
    reader = _READERS.get(name)
    return None if reader is None else reader(name, schema)


def _read_type(name: str, schema: dict[str, Any]) -> Demands:
    types = schema[name] if isinstance(schema[name], list) else [schema[name]]
    if not types or not all(isinstance(each, str) and each in ALL_TYPES for each in types):
        raise Unenforceable(f"must be of {', '.join(sorted(ALL_TYPES))}")
    return {name: types[0] if len(types) == 1 else list(dict.fromkeys(types))}


def _read_values(name: str, schema: dict[str, Any]) -> Demands:
    values = schema[name] if name == "enum" else [schema[name]]
    if not isinstance(values, list) or not values:
        raise Unenforceable("must be a list of at least one value")
    for value in values:
        _check_value(value, 0)
    return {name: schema[name]}


def _check_value(value: object, depth: int) -> None:
    if depth > _DEEPEST_VALUE:
        raise Unenforceable(f"is nested more than {_DEEPEST_VALUE} levels deep")
    if isinstance(value, str) and _UNWRITABLE.search(value):
        raise Unenforceable("has a control character that cannot be written")
    if isinstance(value, int | float) and abs(value) > _MOST_EXACT:
        raise Unenforceable(f"has a number beyond {_MOST_EXACT}, which is not exact")
    parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    for part in parts:
        _check_value(part, depth + 1)


def _read_bound(name: str, schema: dict[str, Any]) -> Demands:
    value = schema[name]
    if isinstance(value, bool) and name.startswith("exclusive"):
        # Draft 4 had a flag beside the bound.
        bound = schema.get(name.removeprefix("exclusive").lower())
        return {name: _number(bound)} if value and bound is not None else {}
    return {name: _number(value)}


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unenforceable("must be a number")
    if abs(value) > _MOST_EXACT:
        raise Unenforceable(f"is beyond {_MOST_EXACT}, where numbers are not exact")
    return value


def _read_multiple(name: str, schema: dict[str, Any]) -> Demands:
    value = _number(schema[name])
    if value <= 0:
        raise Unenforceable("must be more than 0")
    numerator, denominator = float(value).as_integer_ratio()
    if denominator > _MOST_PARTS:
        raise Unenforceable(f"{value} is no exact fraction, so that validators disagree about it")
    if numerator > _MOST_MULTIPLE:
        raise Unenforceable(f"{value} is more than {_MOST_MULTIPLE // denominator}")
    return {name: numerator if denominator == 1 else value}


def _read_count(name: str, schema: dict[str, Any]) -> Demands:
    value = schema[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise Unenforceable("must be an integer from 0 to 2147483647")
    return {name: value}


def _read_format(name: str, schema: dict[str, Any]) -> Demands:
    """Formats that Draft 2020-12 does not know demand nothing: `int32`, `password`."""
    if not _allows(schema, "string") or schema[name] not in (*_FORMATS, *_OTHER_FORMATS):
        return {}
    if schema[name] in _OTHER_FORMATS:
        raise Unenforceable(f"{schema[name]!r} is not supported; {', '.join(_FORMATS)} are")
    return {name: schema[name]}


def _read_pattern(name: str, schema: dict[str, Any]) -> Demands:
    return {name: rust_pattern(schema[name])} if _allows(schema, "string") else {}


def rust_pattern(pattern: object) -> str:
    """Return a pattern in Rust's dialect, in which some characters mean more within brackets."""
    if not isinstance(pattern, str):
        raise Unenforceable("must be a text")
    if len(pattern) > _LONGEST_PATTERN:
        raise Unenforceable(f"has more than {_LONGEST_PATTERN} characters")
    parts: list[str] = []
    is_in_class, previous = False, ""
    for part in _PATTERN_PART.findall(pattern):
        if not is_in_class:
            parts.append(_IN_ALL_DIALECTS.get(part, part))
            is_in_class = part[0] == "["
            previous = "opening"
            continue
        if (part == "]" and previous == "opening") or part == previous == "-":
            raise Unenforceable("has brackets that dialects read differently")
        parts.append(re.sub(r"(?<!\\)([&~\[])", r"\\\1", part))
        is_in_class = part != "]"
        previous = part
    return "".join(parts)


def _read_required(name: str, schema: dict[str, Any]) -> Demands:
    names = schema[name]
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise Unenforceable("must be a list of names")
    if len(names) > MOST_PROPERTIES:
        raise Unenforceable(f"has more than {MOST_PROPERTIES} names")
    return {name: list(dict.fromkeys(names))} if names else {}


def _read_nothing(name: str, schema: dict[str, Any]) -> Demands:
    """Read one that cannot be enforced, save where what it says demands nothing."""
    value = schema[name]
    demands_nothing = {
        "uniqueItems": value is False or schema.get("maxItems") in (0, 1),
        "not": value is False,
        "contains": schema.get("minContains") == 0 and "maxContains" not in schema,
        "minContains": "contains" not in schema or value == 0,
        "maxContains": "contains" not in schema,
        "if": "then" not in schema and "else" not in schema,
        "then": "if" not in schema,
        "else": "if" not in schema,
        "propertyNames": value in (True, {}),
    }
    if demands_nothing.get(name, value in ({}, True)):
        return {}
    raise Unenforceable("is not supported")


def _allows(schema: dict[str, Any], type_name: str) -> bool:
    types = schema.get("type", type_name)
    return type_name in types if isinstance(types, list) else types == type_name


@lru_cache(512)
def find_fault(demands: str) -> str:
    """Return what makes a text or a number impossible to write, "" if nothing does.

    `demands` is a schema for it alone, as JSON text.
    """
    rules = Rules()
    return find_complaint(rules.build(rules.json(json.loads(demands))).lark)


_READERS: dict[str, Callable[[str, dict[str, Any]], Demands]] = {
    "type": _read_type,
    "const": _read_values,
    "enum": _read_values,
    "format": _read_format,
    "pattern": _read_pattern,
    "required": _read_required,
    "multipleOf": _read_multiple,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _read_bound),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        _read_count,
    ),
    **dict.fromkeys(
        (
            *("not", "if", "then", "else", "uniqueItems", "contains", "minContains"),
            *("maxContains", "propertyNames", "dependentRequired", "dependentSchemas"),
            *("dependencies", "$dynamicRef", "$recursiveRef"),
        ),
        _read_nothing,
    ),
}
