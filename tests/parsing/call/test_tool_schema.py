"""What the schema of a function's arguments says to rules that cannot say all of it."""

from collections.abc import Callable
from typing import Any

import pytest

from appliance.chat.request import Tool
from appliance.errors import InvalidRequest
from appliance.parsing.call.tool_schema import ToolSchema

_ROOT: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/name"}, "never": False},
    "required": ["a", "b"],
    "additionalProperties": {"type": "null"},
    "$defs": {"name": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}},
}


def _schema(*, is_strict: bool = False) -> ToolSchema:
    return ToolSchema(Tool("f", parameters=_ROOT, strict=is_strict))


def test_resolve_adds_what_stands_beside_a_reference() -> None:
    schema = _schema()

    beside = {"$ref": "#/$defs/name", "maxLength": 3}
    assert schema.resolve(beside) == {"type": "string", "maxLength": 3}
    assert schema.resolve({"$ref": "#/$defs/loop"}) == {"$ref": "#/$defs/loop"}
    assert schema.resolve({"$ref": "#/none"}) == schema.resolve(True) == {}


def test_members_are_those_that_can_be_there() -> None:
    members, required, others = _schema().members(_ROOT)

    assert members == {"a": {"$ref": "#/$defs/name"}, "b": {"type": "null"}}
    assert required == {"a", "b"}
    assert others == {"type": "null"}


def test_values_are_those_of_the_type() -> None:
    assert _schema().values({"type": "integer", "enum": [1, "x", 2.0]}) == [1, 2.0]
    assert _schema().values({"const": None}) == [None]
    assert _schema().values({"type": "null"}) is None


def test_options_have_what_stands_beside_them() -> None:
    schema = {"type": "string", "anyOf": [{"$ref": "#/$defs/name"}, False, {"minLength": 2}]}

    assert _schema().options(schema) == [{"type": "string"}, {"type": "string", "minLength": 2}]
    assert _schema().options({}) is None


@pytest.mark.parametrize(
    ("read", "schema", "keyword"),
    [
        (ToolSchema.resolve, {"$ref": "#/$defs/name", "maxLength": 3}, "$ref"),
        (ToolSchema.members, {"minProperties": 1}, "minProperties"),
        (ToolSchema.values, {"enum": ["a"], "minLength": 2}, "minLength"),
        (ToolSchema.options, {"anyOf": [{}], "minLength": 2}, "anyOf"),
    ],
)
def test_strict_function_is_refused_what_no_rule_says(
    read: Callable[[ToolSchema, dict[str, Any]], object], schema: dict[str, Any], keyword: str
) -> None:
    read(_schema(), schema)

    with pytest.raises(InvalidRequest, match=f"'f' uses '{keyword}'".replace("$", r"\$")):
        read(_schema(is_strict=True), schema)
