"""Callers' schemas: all of one is enforced, or the keyword that cannot be is named."""

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

_MAP = {"type": "object", "patternProperties": {"^k": {}}, "required": ["k"]}


def grammar_of(schema: object, *, is_strict: bool = True) -> Grammar:
    """Return the grammar of the values that are valid for a schema."""
    rules = Rules()
    return rules.build(rules.json(enforceable(schema, param="here", is_strict=is_strict)))


def _refusal_of(schema: object) -> str:
    with pytest.raises(InvalidRequest) as refused:
        enforceable(schema, param="here", is_strict=True)
    message = str(refused.value)
    assert refused.value.param == "here"
    assert len(message) <= 300 and "\n" not in message
    return message


@pytest.mark.parametrize(
    ("schema", "keyword", "place"),
    [
        ({"uniqueItems": True}, "uniqueItems", "#"),
        ({"properties": {"a/b": {"not": {}}}}, "not", "#/properties/a~1b"),
        ({"items": {"if": {}, "then": {}}}, "if", "#/items"),
        ({"anyOf": [{"contains": {}}]}, "contains", "#/anyOf/0"),
        ({"dependentRequired": {"a": ["b"]}}, "dependentRequired", "#"),
        ({"dependentSchemas": {"a": {}}}, "dependentSchemas", "#"),
        ({"propertyNames": {"maxLength": 3}}, "propertyNames", "#"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"$dynamicRef": "#y"}}}, "$dynamicRef", "#/$defs/x"),
        ({"$ref": "https://example.com/s"}, "$ref", "#"),
        ({"$ref": "#/$defs/none"}, "$ref", "#"),
        ({"properties": {"a": {"$id": "https://example.com/s"}}}, "$id", "#/properties/a"),
        ({"type": "string", "format": "idn-email"}, "format", "#"),
        ({"type": "string", "pattern": "(?=a)"}, "pattern", "#"),
        ({"type": "string", "pattern": r"(a)\1"}, "pattern", "#"),
        ({"type": "string", "pattern": r"\bfoo"}, "pattern", "#"),
        ({"type": "string", "pattern": "["}, "pattern", "#"),
        ({"type": "string", "pattern": "[a--z]"}, "pattern", "#"),
        ({"type": "string", "pattern": "[]a]"}, "pattern", "#"),
        ({"type": "string", "pattern": "^\x01$"}, "pattern", "#"),
        ({"type": "string", "pattern": 5}, "pattern", "#"),
        ({"patternProperties": {"(?=a)": {}}}, "patternProperties", "#"),
        ({"patternProperties": {"^a": {}, "b$": {}}}, "patternProperties", "#"),
        ({"patternProperties": []}, "patternProperties", "#"),
        ({"type": "strin"}, "type", "#"),
        ({"type": []}, "type", "#"),
        ({"enum": []}, "enum", "#"),
        ({"enum": ["a\x00"]}, "enum", "#"),
        ({"enum": [json.loads("[" * 40 + "]" * 40)]}, "enum", "#"),
        ({"const": 2**53 + 1}, "const", "#"),
        ({"const": {"a": [1e300]}}, "const", "#"),
        ({"type": "string", "enum": [1]}, "enum", "#"),
        ({"minimum": 2**60}, "minimum", "#"),
        ({"maximum": "5"}, "maximum", "#"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "minimum', 'maximum", "#"),
        ({"multipleOf": 0}, "multipleOf", "#"),
        ({"multipleOf": 0.01}, "multipleOf", "#"),
        ({"multipleOf": 999_999_937}, "multipleOf", "#"),
        ({"type": "string", "maxLength": -1}, "maxLength", "#"),
        ({"type": "string", "maxLength": 2**40}, "maxLength", "#"),
        ({"type": "string", "minLength": 2, "maxLength": 1}, "minLength', 'maxLength", "#"),
        ({"type": "array", "items": {}, "minItems": True}, "minItems", "#"),
        ({"type": "array", "minItems": 2, "maxItems": 1}, "minItems', 'maxItems", "#"),
        ({"type": "array", "prefixItems": {}}, "prefixItems", "#"),
        ({"type": "object", "minProperties": 2}, "minProperties", "#"),
        ({"properties": {"a": {}, "b": {}, "c": {}}, "maxProperties": 2}, "maxProperties", "#"),
        ({"properties": []}, "properties", "#"),
        ({"required": "a"}, "required", "#"),
        ({"required": ["a"], "additionalProperties": False}, "required", "#"),
        ({"required": [f"p{number}" for number in range(2000)]}, "required", "#"),
        ({"properties": {f"p{number}": {} for number in range(2000)}}, "properties", "#"),
        ({"properties": {f"p{number}": {} for number in range(500)}}, "properties", "#"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf", "#"),
        ({"oneOf": [{"type": "string"}, {"pattern": "^a$"}]}, "oneOf", "#"),
        ({"oneOf": {}}, "oneOf", "#"),
        ({"oneOf": [True, {"type": "null"}]}, "oneOf", "#"),
        ({"oneOf": [_MAP, {"properties": {"k": {"const": 1}}, "required": ["k"]}]}, "oneOf", "#"),
        ({"$ref": "#none", "allOf": [{"$anchor": "a"}]}, "$ref", "#"),
        ({"anyOf": []}, "anyOf", "#"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "allOf", "#"),
        ({"allOf": [{}, {}], "unevaluatedProperties": False}, "unevaluatedProperties", "#"),
        ({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "$ref", ""),
        ({"$ref": "#"}, "$ref", ""),
        ({"items": {"$ref": "#", "maxItems": 2}}, "maxItems", "#/items"),
    ],
)
def test_what_cannot_be_enforced_is_named_with_its_place(
    schema: object, keyword: str, place: str
) -> None:
    message = _refusal_of(schema)

    assert f"'{keyword}'" in message or f", '{keyword}" in message or f"'{keyword}', " in message
    assert f"at {place} " in message or not place


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


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"items": {"type": "null"}, "uniqueItems": True}, "[null, null]", "[1]"),
        ({"properties": {"a": {"type": "null", "not": {}}}}, '{"a": null}', '{"a": 1}'),
        ({"type": "string", "pattern": "(?=a)", "maxLength": 1}, '"b"', '"bb"'),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "1", "null"),
        ({"properties": {"a": {"$ref": "#/no"}, "b": {"const": 1}}}, '{"b": 1}', '{"b": 2}'),
        ({"patternProperties": {"^a": {}, "b$": {}}, "type": "object"}, '{"a": 1}', "[]"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "1", "null"),
        ({"type": "object", "minProperties": 3}, "{}", "[]"),
    ],
)
def test_not_strict_leaves_out_only_what_cannot_be_enforced(
    schema: object, valid: str, invalid: str
) -> None:
    grammar = grammar_of(schema, is_strict=False)

    assert judge(grammar, valid) == "complete"
    assert judge(grammar, invalid) == "refused"


def _chain(size: int) -> dict[str, Any]:
    links = {str(at): {"properties": {"a": {"$ref": f"#/$defs/{at + 1}"}}} for at in range(size)}
    return {"$ref": "#/$defs/0", "$defs": {**links, str(size): {}}}


def _nest(size: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(size):
        schema = {"items": schema}
    return schema


_BOMB: list[object] = [
    {"anyOf": [{"properties": {f"{a}{b}": {}}} for b in range(9)]} for a in range(9)
]


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(_chain(2000), id="long chain"),
        pytest.param(_nest(200), id="deep"),
        pytest.param(_nest(5000), id="too deep for Python"),
        pytest.param({"enum": ["x" * 300_000]}, id="long"),
        pytest.param({"anyOf": [{"const": at} for at in range(6000)]}, id="wide"),
        pytest.param({"allOf": _BOMB}, id="product"),
        pytest.param({"items": {"items": "x"}}, id="no schema"),
        pytest.param({"minimum": float("nan")}, id="no JSON"),
        pytest.param(5, id="no object"),
        pytest.param(False, id="nothing"),
    ],
)
def test_schema_without_measure_is_refused(schema: object) -> None:
    _refusal_of(schema)


def test_long_chain_within_measure_is_enforced() -> None:
    assert judge(grammar_of(_chain(35)), "{}") == "complete"


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
    ("schema", "reason"),
    [
        ({"type": "string", "pattern": "a" * 5000}, "more than 4000 characters"),
        ({"allOf": [{"type": "string", "pattern": f"a{at}"} for at in range(9)]}, "8 patterns"),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/x"}},
                "$defs": {"x": {"anyOf": [{"allOf": [{"pattern": "a"}] * 9}, {"$ref": "#"}]}},
            },
            "8 patterns",
        ),
        pytest.param(
            {
                "oneOf": [
                    {"properties": {"k": {"const": at}}, "required": ["k"]} for at in range(1500)
                ]
            },
            "takes too long",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["long", "many", "by reference", "slow"],
)
def test_schema_that_would_take_long_is_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        enforceable(schema, param="here", is_strict=True)


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


def test_part_of_a_whole_that_has_no_end_is_refused() -> None:
    endless = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/endless"}},
        "required": ["n"],
    }
    schema = {"$defs": {"endless": endless}, "allOf": [{"$ref": "#/$defs/endless"}]}

    with pytest.raises(InvalidRequest, match="no value has an end"):
        enforceable(schema, param="p", is_strict=True)
