"""What a caller's schema demands is what a grammar allows."""

import json
import re
from typing import Any

import jsonschema
import pytest

from appliance.chat.grammar import Grammar
from appliance.errors import InvalidRequest
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.grammar.schema import enforceable
from tests.parsing.grammar.random_schema import SchemaDraw
from tests.parsing.grammar.trial import judge, random_text


def grammar_of(schema: object, *, is_strict: bool = True) -> Grammar:
    """Return the grammar of the values that are valid for a schema."""
    rules = Rules()
    return rules.build(rules.json(enforceable(schema, param="here", is_strict=is_strict)))


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (True, ["1", '{"a": [null]}'], ["", "nil"]),
        ({}, ["1", '{"a": [null]}'], ["", "nil"]),
        ({"type": ["string", "null"], "maxLength": 1.0}, ['"a"', "null"], ["1", '"ab"']),
        ({"const": {"b": 1, "a": "é\n"}}, ['{"b": 1, "a": "é\\n"}'], ['{"b": 1}']),
        ({"enum": ["a", 1, None, [2]]}, ['"a"', "1", "null", "[2]"], ["2", "[]"]),
        ({"type": "string", "pattern": "^[&-]$"}, ['"&"', '"-"'], ['"a"']),
        ({"type": "string", "pattern": "^[[a]$"}, ['"["', '"a"'], ['"]"']),
        ({"type": "string", "pattern": r"^\W$"}, ['"-"'], ['"a"', '"é"']),
        ({"type": "string", "format": "date"}, ['"2026-11-30"'], ['"2026-13-30"']),
        ({"type": "integer", "format": "int32"}, ["7"], ['"7"']),
        ({"type": "string", "format": "password"}, ['"x"'], ["1"]),
        ({"minimum": 3, "exclusiveMinimum": True}, ["4"], ["3"]),
        ({"minimum": 3, "exclusiveMinimum": False}, ["3"], ["2"]),
        ({"type": "number", "multipleOf": 0.5}, ["1.5", "-2"], ["1.2"]),
        ({"multipleOf": 5.0}, ["10"], ["11"]),
        ({"items": {"type": "null"}, "maxItems": 1}, ["[]", "[null]"], ["[null, null]", "[1]"]),
        ({"items": [{"const": 1}], "additionalItems": False}, ["[1]"], ["[2]", "[1, 1]"]),
        ({"items": [{"const": 1}]}, ["[1]", "[1, 2]"], ["[2]"]),
        ({"prefixItems": [{"const": 1}], "unevaluatedItems": False}, ["[1]"], ["[1, 1]"]),
        ({"unevaluatedProperties": {"type": "null"}}, ['{"a": null}'], ['{"a": 1}']),
        ({"minProperties": 1}, ['{"a": 1}'], ["{}"]),
        ({"required": ["a"], "minProperties": 1}, ['{"a": 1}'], ["{}"]),
        ({"uniqueItems": False, "not": False, "propertyNames": {}}, ["[1, 1]"], ["?"]),
        ({"x-guidance": {"whitespace_flexible": True}}, ["[1]"], ["[ 1]"]),
        ({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "const": 1}}}, ["1"], ["2"]),
        ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"const": 1}}}, ["1"], ["2"]),
        ({"$ref": "#a", "allOf": [{"$anchor": "a", "const": 1}]}, ["1"], ["2"]),
        ({"oneOf": [False, {"const": 1}]}, ["1"], ["2"]),
        ({"$ref": "#/allOf/1", "allOf": [{}, {"const": 1}]}, ["1"], ["2"]),
        ({"$id": "https://e.x/s", "$ref": "https://e.x/s#/x", "x": {"const": 1}}, ["1"], ["2"]),
        ({"$defs": {"x": {"uniqueItems": True}}, "const": 1}, ["1"], ["2"]),
        ({"oneOf": [{"type": "null"}, {"const": 1}]}, ["1", "null"], ["2"]),
        ({"oneOf": [{"const": 1}, {"const": 1.5}], "anyOf": [{"const": 1}]}, ["1"], ["1.5"]),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}], "type": "integer"}, ["1", "2"], ["3", "0"]),
    ],
)
def test_schema_is_enforced(schema: object, valid: list[str], invalid: list[str]) -> None:
    grammar = grammar_of(schema)

    assert [judge(grammar, text) for text in valid] == ["complete"] * len(valid)
    assert "complete" not in [judge(grammar, text) for text in invalid]


def test_object_has_only_the_properties_that_it_names() -> None:
    inner = {"properties": {"x": {"type": "null"}}}
    schema = {"properties": {"a": inner, "b": {"type": "object"}}, "required": ["a"]}

    grammar = grammar_of(schema)

    assert judge(grammar, '{"a": {"x": null}, "b": {"free": 1}}') == "complete"
    assert judge(grammar, '{"a": {}, "c": 1}') == "refused"
    assert judge(grammar, '{"a": {"y": 1}}') == "refused"
    assert judge(grammar, '"a"') == "refused"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {}}, "additionalProperties": True},
        {"properties": {"a": {}}, "required": ["z"]},
        {"properties": {"a": {}}, "patternProperties": {"^z$": {}}},
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"z": {}}}]},
        {"$ref": "#/$defs/o", "properties": {"z": {}}, "$defs": {"o": {"properties": {"a": {}}}}},
    ],
)
def test_object_is_open_where_it_says_so_or_is_a_part(schema: object) -> None:
    assert judge(grammar_of(schema), '{"a": 1, "z": 2}') == "complete"


def test_options_that_a_property_tells_apart_exclude_each_other() -> None:
    cat = {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]}
    dog = {"type": "object", "properties": {"kind": {"const": "dog"}}, "required": ["kind"]}
    schema = {
        "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}],
        "$defs": {"cat": cat, "dog": dog},
    }

    grammar = grammar_of(schema)

    assert judge(grammar, '{"kind": "dog"}') == "complete"
    assert judge(grammar, '{"kind": "cow"}') == "refused"


def test_tree_refers_to_itself() -> None:
    node = {"properties": {"of": {"type": "array", "items": {"$ref": "#"}}}, "required": ["of"]}

    grammar = grammar_of(node)

    assert judge(grammar, '{"of": [{"of": []}, {"of": [{"of": []}]}]}') == "complete"
    assert judge(grammar, '{"of": [{}]}') == "refused"


@pytest.mark.parametrize("seed", range(60))
def test_any_schema_is_enforced_or_refused(seed: int) -> None:
    check_schema(SchemaDraw(seed).schema(is_sound=seed % 4 != 0), seed)


def check_schema(schema: object, seed: int) -> bool:
    """Check what becomes of a schema; return whether a random answer ended, or was not needed."""
    try:
        grammar = grammar_of(schema)
    except InvalidRequest as refused:
        named = re.search(r"'(\$?\w+)'", str(refused))
        assert named and f'"{named[1]}"' in json.dumps(schema)
        return True

    text = random_text(grammar, seed)

    if text is not None:
        jsonschema.validate(json.loads(text), schema, jsonschema.Draft202012Validator)
    return text is not None


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        pytest.param(
            {"oneOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "array"}]},
            {"anyOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "array"}]},
            id="options of options exclude each other",
        ),
        pytest.param(
            {"oneOf": [{"enum": [1.0]}, {"enum": [2]}]},
            {"anyOf": [{"enum": [1.0]}, {"enum": [2]}]},
            id="numbers are told apart by their value",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "unevaluatedItems": False},
            {"type": "array", "items": {"type": "string"}},
            id="nothing is left for what speaks of the rest",
        ),
    ],
)
def test_schema_is_written_as_it_is_enforced(schema: dict[str, Any], found: dict[str, Any]) -> None:
    assert enforceable(schema, param="p", is_strict=True) == found
