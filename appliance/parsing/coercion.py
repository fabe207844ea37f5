"""Say what JSON value a plain text stands for, where a JSON Schema says what it may be. Pure."""

from typing import Any, cast

import msgspec

from appliance.parsing.grammar.kind import ALL_TYPES, Schema, type_of_value
from appliance.parsing.grammar.reference import References
from appliance.parsing.literal import PYTHON, LiteralReader

NULLS = ("null", "None")
"""How models write nothing, where they do not write JSON."""

_JSON = msgspec.json.Decoder(float_hook=float)
"""Numbers may be beyond all floats, as JSON allows."""


def coerce_to(text: str, types: frozenset[str]) -> str:
    """Return the JSON text of the value that a model wrote as `text`.

    `types` are those of `value_types`. What only a string can be is one as it stands. Other values
    are taken as JSON, or as Python writes them, if they are of one of these types, and are strings
    if not. Where any is allowed, JSON is taken for what it is.
    """
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

    `root` is the schema that `schema` is a part of. `integer` is in it where there is `number`.
    """
    try:
        return _types(schema, References(root), {}) or ALL_TYPES
    except RecursionError:
        return ALL_TYPES


def property_schema(key: str, schema: Schema, root: dict[str, Any] | None = None) -> Schema:
    """Return the schema of an object's property; True if `schema` says nothing about it.

    `root` is the schema that `schema` is a part of, or None if it is a whole one. One without a
    name may be any of those: a caller's patterns are not run here, which could take for ever.
    """
    parts = _parts(schema, References(root or _dict(schema)))
    named = [each[key] for part in parts if key in (each := _dict(part.get("properties")))]
    others = [each for part in parts for each in _dict(part.get("patternProperties")).values()]
    others += [part["additionalProperties"] for part in parts if "additionalProperties" in part]
    return _one_of(named or others)


def item_schema(index: int, schema: Schema, root: dict[str, Any]) -> Schema:
    """Return the schema of an array's item; True if `schema` says nothing about it."""
    parts = _parts(schema, References(root))
    firsts = [each[index] for part in parts if index < len(each := _list(part.get("prefixItems")))]
    return _one_of(firsts or [part["items"] for part in parts if "items" in part])


def quote(text: str) -> str:
    """Return a text as a JSON string."""
    return msgspec.json.encode(text).decode()


def _types(
    schema: object, references: References, known: dict[str, frozenset[str]]
) -> frozenset[str]:
    """Find a schema's types; `known` are those of the references met so far."""
    if not isinstance(schema, dict):
        return frozenset() if schema is False else ALL_TYPES
    types = _named_types(schema) & _listed_types(schema)
    for key in ("anyOf", "oneOf"):
        if choices := _list(schema.get(key)):
            types &= frozenset().union(*(_types(each, references, known) for each in choices))
    for part in _list(schema.get("allOf")):
        types &= _types(part, references, known)
    target = schema.get("$ref")
    if isinstance(target, str):
        if target not in known:
            # One that refers to itself says nothing there.
            known[target] = ALL_TYPES
            known[target] = _types(_follow(target, references), references, known)
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


def _follow(target: str, references: References) -> object:
    """Return what a reference names; None if there is no such part."""
    found = references.find(target)
    return found and found[1]


def _parts(schema: object, references: References) -> list[dict[str, Any]]:
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
            ahead.append(_follow(target, references))
    return parts


def _one_of(schemas: list[Any]) -> Schema:
    if len(schemas) > 1:
        return {"anyOf": schemas}
    return cast("Schema", schemas[0]) if schemas else True


def _list(value: object) -> list[Any]:
    # What is no schema says nothing; it is refused elsewhere, where it has to be followed.
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _type_of(text: str) -> str | None:
    """Return the type of a JSON text, None if it is none; a whole number is an integer."""
    try:
        value = _JSON.decode(text)
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
