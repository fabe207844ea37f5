"""A plain text becomes the value that its schema says it can be, and no other."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.parsing.coercion import coerce_to, item_schema, property_schema, value_types
from appliance.parsing.grammar.kind import Schema

ROOT: dict[str, Any] = {
    "$defs": {
        "name": {"type": "string"},
        "a/b": {"type": "integer"},
        "loop": {"$ref": "#/$defs/loop"},
        "tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}},
    },
    "properties": {"n": {"type": "integer"}, "p": {"$ref": "#/$defs/name"}},
    "list": [{}, {"type": "string"}],
}
STRING, NUMBER, OBJECT = {"type": "string"}, {"type": "number"}, {"type": "object"}
INTEGER, ARRAY, BOOLEAN = {"type": "integer"}, {"type": "array"}, {"type": "boolean"}
NULLABLE = {"anyOf": [STRING, {"type": "null"}]}


def coerce(text: str, schema: Schema, root: dict[str, Any]) -> str:
    return coerce_to(text, value_types(schema, root))


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (STRING, "5", "5"),
        (STRING, " a\n", " a\n"),
        (STRING, '"a"', '"a"'),
        (STRING, "null", "null"),
        ({"$ref": "#/$defs/name"}, "[1]", "[1]"),
        ({"enum": ["5", "6"]}, "5", "5"),
        ({"const": "true"}, "true", "true"),
        (NULLABLE, "null", None),
        (NULLABLE, "None", None),
        (NULLABLE, "nullify", "nullify"),
        ({"type": "string", "nullable": True}, "null", None),
        (INTEGER, "5", 5),
        (INTEGER, " -5\n", -5),
        (INTEGER, "5.0", 5.0),
        (INTEGER, "5.5", "5.5"),
        (INTEGER, "2026-01-15", "2026-01-15"),
        (INTEGER, '"5"', 5),
        (INTEGER, '"x"', '"x"'),
        (INTEGER, "", ""),
        (INTEGER, "1, b=2", "1, b=2"),
        (INTEGER, "9" * 5000, "9" * 5000),
        (NUMBER, "1e-07", 1e-07),
        (NUMBER, "7", 7),
        (NUMBER, "NaN", "NaN"),
        (NUMBER, "1e999", 1e999),
        (BOOLEAN, "true", True),
        (BOOLEAN, "False", False),
        (BOOLEAN, "1", "1"),
        ({"type": "null"}, "None", None),
        (ARRAY, '["a", null]', ["a", None]),
        (ARRAY, "['it\\'s', \"q\", True]", ["it's", "q", True]),
        (ARRAY, '"[1, 2]"', [1, 2]),
        (ARRAY, '{"a": 1}', '{"a": 1}'),
        (ARRAY, "[1", "[1"),
        (OBJECT, "{'x': [1, 'a', None, {'deep': 'v'}]}", {"x": [1, "a", None, {"deep": "v"}]}),
        (OBJECT, "{'x': 1} or so", "{'x': 1} or so"),
        (OBJECT, "1), b=(2", "1), b=(2"),
        ({"items": STRING}, "[]", []),
        ({"properties": {}}, "{}", {}),
        ({"type": ["string", "integer"]}, "5", 5),
        ({"type": ["string", "integer"]}, "five", "five"),
        ({"oneOf": [INTEGER, {"enum": ["auto"]}]}, "auto", "auto"),
        ({"allOf": [{"type": ["string", "integer"]}, {"enum": [5, 6]}]}, "5", 5),
        (True, "5", 5),
        (True, "[1]", [1]),
        (False, "5", 5),
        ({}, '{"a": 1}', {"a": 1}),
        ({}, '"a"', '"a"'),
        ({}, "True", "True"),
        ({}, "[1,", "[1,"),
    ],
)
def test_coerce_returns_the_value_that_a_text_stands_for(
    schema: Schema, text: str, value: object
) -> None:
    assert json.loads(coerce(text, schema, ROOT)) == value


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        (True, "any"),
        (False, "any"),
        ({"anyOf": [False, STRING]}, "string"),
        ({"type": "strong"}, "any"),
        ({"type": []}, "any"),
        ({"$ref": "#/$defs/nowhere"}, "any"),
        ({"$ref": "#/$defs/loop"}, "any"),
        ({"$ref": "#/list/1"}, "string"),
        ({"$ref": "#/list/2"}, "any"),
        ({"$ref": "#/list/-1"}, "any"),
        ({"$ref": "#/list/" + "9" * 5000}, "any"),
        ({"$ref": "other.json"}, "any"),
        ({"type": "string", "enum": [5]}, "any"),
        ({"$ref": "#/$defs/a~1b"}, "integer"),
        (NUMBER, "integer number"),
        ({"enum": [1.5]}, "integer number"),
        ({"enum": [2.0, None]}, "integer null"),
        ({"anyOf": [{"$ref": "#/$defs/name"}, {"$ref": "#/$defs/a~1b"}]}, "integer string"),
    ],
)
def test_value_types_are_those_that_a_schema_leaves(schema: Schema, types: str) -> None:
    found = sorted(value_types(schema, ROOT))

    assert " ".join(found if len(found) < 7 else ["any"]) == types


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"properties": {"a": STRING}, "additionalProperties": INTEGER}, STRING),
        ({"properties": {"a": STRING}, "patternProperties": {"^a": INTEGER}}, STRING),
        ({"patternProperties": {"^b": STRING}}, STRING),
        ({"patternProperties": {"^a": STRING, "(?<b)": INTEGER}}, {"anyOf": [STRING, INTEGER]}),
        (
            {"patternProperties": {"^b": STRING}, "additionalProperties": INTEGER},
            {"anyOf": [STRING, INTEGER]},
        ),
        ({"anyOf": [{"properties": {"a": STRING}}, {"type": "null"}]}, STRING),
        (
            {"anyOf": [{"properties": {"a": STRING}}, {"properties": {"a": INTEGER}}]},
            {"anyOf": [STRING, INTEGER]},
        ),
        ({"$ref": "#/$defs/loop"}, True),
        ({"properties": []}, True),
        (False, True),
    ],
)
def test_property_schema_is_found_in_all_parts(schema: Schema, found: Schema) -> None:
    assert property_schema("a", schema, ROOT) == found


def test_property_schema_follows_references_from_property_to_property() -> None:
    tree = property_schema("next", {"$ref": "#/$defs/tree"}, ROOT)

    assert property_schema("next", tree, ROOT) == tree == {"$ref": "#/$defs/tree"}
    assert property_schema("p", ROOT) == {"$ref": "#/$defs/name"}


def test_property_that_only_a_pattern_allows_is_of_its_type() -> None:
    schema = {"patternProperties": {"^b": STRING}, "additionalProperties": False}

    assert value_types(property_schema("a", schema), schema) == {"string"}


def test_item_schema_is_that_of_its_place() -> None:
    schema = {"prefixItems": [STRING], "items": INTEGER}

    assert [item_schema(index, schema, ROOT) for index in (0, 1)] == [STRING, INTEGER]
    assert item_schema(0, ARRAY, ROOT) is True


def test_deep_and_tangled_schemas_are_read_in_little_time() -> None:
    deep: dict[str, Any] = STRING
    for _ in range(5000):
        deep = {"allOf": [deep]}
    tangle = {
        str(number): {"anyOf": [{"$ref": f"#/$defs/{number + 1}"}] * 2} for number in range(200)
    }
    anchors = {"anyOf": [{"$ref": f"#a{number}"} for number in range(3000)]}
    start = time.process_time()

    assert coerce("5", deep, {}) == "5"
    assert coerce("5", anchors, anchors) == "5"
    assert property_schema("a", anchors) is True
    assert coerce("5", {"$ref": "#/$defs/0"}, {"$defs": tangle}) == "5"
    assert property_schema("a", deep, {}) is True
    assert time.process_time() - start < 1


KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "nullable", "$defs", "a"),
        *("properties", "patternProperties", "additionalProperties", "items", "prefixItems"),
    ]
)
WORDS = st.sampled_from(["string", "integer", "#/$defs/a", "#", "[", "object"])
SCHEMAS = st.recursive(
    WORDS | st.none() | st.booleans() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=3),
)
ODD = st.lists(st.sampled_from([*"'\"\\[]{}:,1-.() u\n", "True", "None", "null"])).map("".join)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(KEYWORDS, SCHEMAS, max_size=3), ODD | st.text())
def test_coerce_returns_json_whatever_the_schema_and_the_text_are(
    schema: dict[str, Any], text: str
) -> None:
    json.loads(coerce(text, schema, schema))
    property_schema("a", schema)
    item_schema(0, schema, schema)


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ).filter(lambda value: not isinstance(value, str))
)
def test_values_written_as_json_or_python_are_read_back(value: object) -> None:
    types = {"type": ["integer", "boolean", "null", "array", "object"]}

    assert json.loads(coerce(repr(value), types, {})) == value
    assert json.loads(coerce(json.dumps(value), types, {})) == value
