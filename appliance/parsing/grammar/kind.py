"""Name the types of JSON values, and the keywords of JSON Schema for each of them. Pure."""

from typing import Any

Schema = dict[str, Any] | bool
"""A JSON Schema, or a part of one: `True` says nothing, and nothing is valid for `False`."""

TYPES = ("string", "number", "boolean", "null", "array", "object")
"""The types, of which each value has one."""
ALL_TYPES = frozenset((*TYPES, "integer"))
"""What schemas call them: a whole `number` is an `integer`, too."""

KEYWORDS = {
    "object": (
        *("properties", "required", "additionalProperties", "patternProperties"),
        *("minProperties", "maxProperties"),
    ),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""What is said of values of one type, and of no others."""

_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def type_of_value(value: object) -> str:
    """Return the JSON type of a value; a whole number is an integer."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _NAMES[type(value)]
