"""Say of JSON Schemas whether a value can be valid for two of them, or for one at all. Pure.

Only what `appliance.parsing.grammar.schema` lets through is looked at, and references are followed.
"""

import json
from typing import Any

from appliance.parsing.grammar.kind import ALL_TYPES, Schema, type_of_value
from appliance.parsing.grammar.reference import find_target

_DEEPEST = 8


def are_disjoint(one: Schema, other: Schema, root: dict[str, Any], depth: int = 0) -> bool:
    """Say whether no value is valid for both, for certain; in doubt it is not."""
    if depth > _DEEPEST or one is True or other is True:
        return False
    if one is False or other is False:
        return True
    for first, second in ((one, other), (other, one)):
        options = _options(first, root)
        if options is not None:
            return all(are_disjoint(option, second, root, depth + 1) for option in options)
    return _are_apart(one, other) or _have_apart_property(one, other, root, depth)


def _options(schema: dict[str, Any], root: dict[str, Any]) -> list[Schema] | None:
    """Return schemas of which one is valid wherever `schema` is; None: it is to be looked at."""
    if "anyOf" in schema:
        options: list[Schema] = schema["anyOf"]
        return options
    if "$ref" in schema:
        target = find_target(root, schema["$ref"])
        return [True if target is None else target[1]]
    return None


def _are_apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    values, others = _values(one), _values(other)
    if values is not None and others is not None:
        return not set(map(_identity, values)) & set(map(_identity, others))
    types, other_types = _types(one), _types(other)
    return not (types & other_types)


def _have_apart_property(
    one: dict[str, Any], other: dict[str, Any], root: dict[str, Any], depth: int
) -> bool:
    if _types(one) & _types(other) != {"object"}:
        return False
    names = {*one.get("required", ()), *other.get("required", ())}
    return any(
        are_disjoint(_property(one, name), _property(other, name), root, depth + 1)
        for name in names
    )


def _property(schema: dict[str, Any], name: str) -> Schema:
    properties: dict[str, Schema] = schema.get("properties", {})
    if name in properties:
        return properties[name]
    if "patternProperties" in schema:
        return True
    rest: Schema = schema.get("additionalProperties", True)
    return rest


def _values(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values: list[Any] | None = schema.get("enum")
    return values


def _types(schema: dict[str, Any]) -> set[str]:
    """Return the types that a value may have, of which `integer` is one of `number`."""
    values = _values(schema)
    if values is not None:
        return set(map(type_of_value, values))
    named = schema.get("type", ALL_TYPES)
    types = {named} if isinstance(named, str) else set(named)
    return types | {"integer"} if "number" in types else types


def _identity(value: object) -> str:
    """Return a text that is the same for equal values, of which 1 and 1.0 are two."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, sort_keys=True)


def has_end(root: dict[str, Any]) -> bool:
    """Say whether some value that ends is valid; without, a model would write on for ever."""
    parts: dict[str, Schema] = {"#": {key: root[key] for key in root if key != "$defs"}}
    parts |= {f"#/$defs/{name}": part for name, part in root.get("$defs", {}).items()}
    ending: set[str] = set()
    while True:
        more = {name for name, part in parts.items() if name not in ending and _ends(part, ending)}
        if not more:
            return "#" in ending
        ending |= more


def _ends(schema: Schema, ending: set[str]) -> bool:
    """Say whether a value can be whole, if those of the places `ending` can be."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema and schema["$ref"] not in ending:
        return False
    if "anyOf" in schema and not any(_ends(option, ending) for option in schema["anyOf"]):
        return False
    if not all(_ends(part, ending) for part in schema.get("allOf", ())):
        return False
    types = _types(schema)
    if types <= {"array", "object"} and _values(schema) is None:
        return ("array" in types and _array_ends(schema, ending)) or (
            "object" in types
            and all(_ends(_property(schema, name), ending) for name in schema.get("required", ()))
        )
    return True


def _array_ends(schema: dict[str, Any], ending: set[str]) -> bool:
    first = schema.get("prefixItems", [])
    least = schema.get("minItems", 0)
    rest = [schema.get("items", True)] if least > len(first) else []
    return all(_ends(item, ending) for item in [*first[:least], *rest])


def num_patterns(schema: Schema, root: dict[str, Any], known: dict[str, int]) -> int:
    """Return how many patterns at most hold for one text; `known` are those of references."""
    if isinstance(schema, bool):
        return 0
    number = int("pattern" in schema)
    number += sum(num_patterns(part, root, known) for part in schema.get("allOf", ()))
    options = schema.get("anyOf", ())
    number += max((num_patterns(option, root, known) for option in options), default=0)
    target = schema.get("$ref", "")
    if target and target not in known:
        known[target] = 0  # one that leads back to itself adds none
        found = find_target(root, target)
        known[target] = num_patterns(found[1], root, known) if found else 0
    return number + known.get(target, 0)
