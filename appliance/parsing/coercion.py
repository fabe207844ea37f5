"""Say what JSON value a plain text stands for, where a JSON Schema says what it may be. Pure."""

import re
from typing import Any, cast

import msgspec

from appliance.parsing.call.literal import PYTHON, LiteralReader
from appliance.parsing.grammar.reference import find_target

Schema = dict[str, Any] | bool | None

ALL_TYPES = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
NULLS = ("null", "None")
"""How models write nothing, where they do not write JSON."""

_TYPES: dict[type, str] = {
    str: "string",
    int: "integer",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def coerce(text: str, schema: Schema, root: dict[str, Any]) -> str:
    """Return the JSON text of the value that a model wrote as `text`.

    `root` is the schema that `schema` is a part of. What only a string can be is one as it stands.
    Other values are taken as JSON, or as Python writes them, if they are of a type that the schema
    allows, and are strings if not. Without a type JSON is taken for what it is.
    """
    return coerce_to(text, value_types(schema, root))


def is_text(schema: Schema, root: dict[str, Any]) -> bool:
    """Say whether only a string can be meant, so that it may be given away while it comes."""
    return value_types(schema, root) == {"string"}


def coerce_to(text: str, types: frozenset[str]) -> str:
    """Do as `coerce` does, with what `value_types` found."""
    if types == {"string"}:
        return quote(text)
    value = text.strip()
    candidates = (value,) if types == ALL_TYPES else (value, _as_json(value))
    for candidate in candidates:
        kind = _type_of(candidate)
        if kind in types and kind != "string":
            return candidate
        if kind == "string" and "string" not in types:
            # What was encoded twice is unwrapped once.
            inner = msgspec.json.decode(candidate, type=str).strip()
            if _type_of(inner) in types:
                return inner
    return quote(text)


def value_types(schema: Schema, root: dict[str, Any]) -> frozenset[str]:
    """Return the JSON types that a value may have; all of them if the schema does not say.

    `integer` is in it where there is `number`.
    """
    try:
        return _types(schema, root, {}) or ALL_TYPES
    except RecursionError:
        return ALL_TYPES


def property_schema(key: str, schema: Schema, root: dict[str, Any] | None = None) -> Schema:
    """Return the schema of an object's property; None if `schema` says nothing about it.

    `root` is the schema that `schema` is a part of, or None if it is a whole one.
    """
    parts = _parts(schema, root or _dict(schema))
    named = [each[key] for part in parts if key in (each := _dict(part.get("properties")))]
    if not named:
        named = [each for part in parts for each in _matching(part, key)]
    others = [part["additionalProperties"] for part in parts if "additionalProperties" in part]
    return _one_of(named or others)


def item_schema(index: int, schema: Schema, root: dict[str, Any]) -> Schema:
    """Return the schema of an array's item; None if `schema` says nothing about it."""
    parts = _parts(schema, root)
    firsts = [each[index] for part in parts if index < len(each := _list(part.get("prefixItems")))]
    return _one_of(firsts or [part["items"] for part in parts if "items" in part])


def type_of_value(value: object) -> str:
    """Return the JSON type of a value; a whole number is an integer."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _TYPES[type(value)]


def quote(text: str) -> str:
    """Return a text as a JSON string."""
    return msgspec.json.encode(text).decode()


def _types(
    schema: object, root: dict[str, Any], known: dict[str, frozenset[str]]
) -> frozenset[str]:
    """Find a schema's types; `known` are those of the references met so far."""
    if not isinstance(schema, dict):
        return ALL_TYPES
    types = _named_types(schema) & _listed_types(schema)
    for key in ("anyOf", "oneOf"):
        if choices := _list(schema.get(key)):
            types &= frozenset().union(*(_types(each, root, known) for each in choices))
    for part in _list(schema.get("allOf")):
        types &= _types(part, root, known)
    target = schema.get("$ref")
    if isinstance(target, str):
        if target not in known:
            # One that refers to itself says nothing there.
            known[target] = ALL_TYPES
            known[target] = _types(_follow(target, root), root, known)
        types &= known[target]
    return types if types != ALL_TYPES else _implied_types(schema)


def _named_types(schema: dict[str, Any]) -> frozenset[str]:
    named = schema.get("type")
    types = ALL_TYPES.intersection(each for each in (named, *_list(named)) if isinstance(each, str))
    if not types:
        return ALL_TYPES
    return _widen(types | {"null"} if schema.get("nullable") is True else types)


def _listed_types(schema: dict[str, Any]) -> frozenset[str]:
    values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
    types = frozenset(map(type_of_value, values))
    return _widen(types) if types else ALL_TYPES


def _widen(types: frozenset[str]) -> frozenset[str]:
    return types | {"integer"} if "number" in types else types


def _implied_types(schema: dict[str, Any]) -> frozenset[str]:
    """Return the types that keywords are for, where nothing else says what is meant."""
    if "properties" in schema:
        return frozenset(("object",))
    return frozenset(("array",)) if "items" in schema else ALL_TYPES


def _follow(target: str, root: dict[str, Any]) -> object:
    """Return the part of `root` that a reference names; None if it names none in it."""
    found = find_target(root, target)
    return found and found[1]


def _parts(schema: object, root: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema and those that it is made of, each once."""
    parts: list[dict[str, Any]] = []
    ahead, seen = [schema], set()
    while ahead:
        part = _dict(ahead.pop())
        if id(part) in seen:
            continue
        seen.add(id(part))
        parts.append(part)
        for key in ("oneOf", "anyOf", "allOf"):
            ahead += reversed(_list(part.get(key)))
        if isinstance(target := part.get("$ref"), str):
            ahead.append(_follow(target, root))
    return parts


def _one_of(schemas: list[Any]) -> Schema:
    if len(schemas) > 1:
        return {"anyOf": schemas}
    return cast("Schema", schemas[0]) if schemas else None


def _matching(part: dict[str, Any], key: str) -> list[Any]:
    patterns = _dict(part.get("patternProperties"))
    return [schema for pattern, schema in patterns.items() if _matches(pattern, key)]


def _list(value: object) -> list[Any]:
    # What is no schema says nothing; it is refused elsewhere, where it has to be followed.
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _matches(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        # JSON Schema's patterns are those of JavaScript, which knows some more.
        return False


def _type_of(text: str) -> str | None:
    """Return the type of a JSON text, None if it is none; a whole number is an integer."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return type_of_value(value)


def _as_json(text: str) -> str:
    """Return the JSON text of a value as Python writes it; no JSON if it is none."""
    reader = LiteralReader(PYTHON)
    whole = f"_={text})"
    if reader.read(whole, 0) < len(whole) or not reader.is_done:
        return ""
    return reader.taken.removeprefix('{"_":').removesuffix("}")
