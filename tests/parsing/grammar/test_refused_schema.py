"""What of a caller's schema cannot be enforced is named with its place, or left out."""

import json
from typing import Any

import pytest

from appliance.errors import InvalidRequest
from appliance.parsing.grammar.schema import enforceable
from tests.parsing.grammar.test_schema import grammar_of
from tests.parsing.grammar.trial import judge

_MAP = {"type": "object", "patternProperties": {"^k": {}}, "required": ["k"]}
_NOTHING = {"allOf": [{"type": "string"}, {"type": "null"}]}


def _refusal_of(schema: object) -> str:
    with pytest.raises(InvalidRequest) as refused:
        enforceable(schema, param="here", is_strict=True)
    message = str(refused.value)
    assert refused.value.param == "here"
    assert len(message) <= 300 and "\n" not in message and message.encode()
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
        ({"$ref": 5}, "$ref", "#"),
        ({"$ref": "#/allOf/" + "9" * 5000, "allOf": [{}]}, "$ref", "#"),
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
        ({"maximum": True}, "maximum", "#"),
        ({"maximum": 10**400}, "maximum", "#"),
        ({"exclusiveMinimum": -(10**400)}, "exclusiveMinimum", "#"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "minimum', 'maximum", "#"),
        ({"multipleOf": 0}, "multipleOf", "#"),
        ({"multipleOf": 10**400}, "multipleOf", "#"),
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
        ({"allOf": 5}, "allOf", "#"),
        (_NOTHING, "allOf", "#"),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/y"}},
                "$defs": {"x": {"type": "null"}, "y": _NOTHING},
            },
            "allOf",
            "#/$defs/y",
        ),
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


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(False, id="nothing"),
        pytest.param({"anyOf": [{"const": at} for at in range(6000)]}, id="wide"),
        pytest.param(
            {"prefixItems": [_NOTHING] * 9, "minItems": 9, "type": "array"}, id="many faults"
        ),
    ],
)
def test_not_strict_leaves_out_all_of_a_schema_without_measure(schema: object) -> None:
    assert enforceable(schema, param="p", is_strict=False) == {}


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
        pytest.param({"properties": {"\ud800": {"minimum": "x"}}}, id="no Unicode"),
        pytest.param(5, id="no object"),
        pytest.param(False, id="nothing"),
    ],
)
def test_schema_without_measure_is_refused(schema: object) -> None:
    _refusal_of(schema)


def test_long_chain_within_measure_is_enforced() -> None:
    assert judge(grammar_of(_chain(35)), "{}") == "complete"


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


def test_part_of_a_whole_that_has_no_end_is_refused() -> None:
    endless = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/endless"}},
        "required": ["n"],
    }
    schema = {"$defs": {"endless": endless}, "allOf": [{"$ref": "#/$defs/endless"}]}

    with pytest.raises(InvalidRequest, match="no value has an end"):
        enforceable(schema, param="p", is_strict=True)
