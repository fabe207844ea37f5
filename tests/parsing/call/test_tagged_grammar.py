"""Calls that are tags are bound by their functions' schemas, in their family's own spelling."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

import json
from typing import Any

import jsonschema
import pytest

from appliance.chat.grammar import Grammar
from appliance.chat.request import Tool
from appliance.errors import InvalidRequest
from appliance.parsing.call.tagged import TaggedSyntax
from appliance.parsing.call.tagged_family import (
    DEEPSEEK_V4,
    GLM47,
    KIMI_K3,
    MINICPM5,
    MINIMAX_M2,
    QWEN3_CODER,
)
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.grammar.schema import enforceable
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import fold, read_pieces
from tests.parsing.call.writing import Writing
from tests.parsing.grammar.trial import judge, random_text

STRING = {"type": "string"}
ANY: dict[str, Any] = {"type": "object"}


def grammar_of(
    syntax: TaggedSyntax, parameters: dict[str, Any] | None, *, is_single: bool = False
) -> Grammar:
    rules = Rules()
    tools = Toolbox([Tool("f", parameters=parameters), Tool("now", parameters={"properties": {}})])
    return rules.build(syntax.grammar(rules, tools, is_single=is_single))


def bound(schema: Any) -> Grammar:  # noqa: ANN401 - any JSON value
    """Return the grammar of a GLM call with one parameter of a schema, `a`."""
    return grammar_of(GLM47, {"properties": {"a": schema}, "required": ["a"]}, is_single=True)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (STRING, ["", "a <b> \n c", "x</arg_key>"], []),
        ({}, ["", "5", "a b"], []),
        (True, ["a"], []),
        ({"type": "integer"}, ["5", "-1"], ["x", "1.5", '"5"', ""]),
        ({"type": "number", "minimum": 2}, ["2", "2.5"], ["1"]),
        ({"type": "boolean"}, ["true", "false"], ["True"]),
        ({"type": ["integer", "null"]}, ["5", "null"], ["x"]),
        ({"type": ["string", "integer"]}, ["5", "x"], []),
        ({"enum": ["b c", 5, None, {"x": 1}]}, ["b c", "5", "null", '{"x": 1}'], ["b", '"b c"']),
        ({"const": "b"}, ["b"], ["c", ""]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "a\nb"], ["a", "abcd", "<<"]),
        ({"type": "string", "minLength": 2}, ["ab", "abcdef"], ["a"]),
        ({"type": "string", "pattern": "^[a-c]+$"}, ["abc"], ["abd", ""]),
        ({"type": "string", "pattern": "b"}, ["b", "abc"], ["a"]),
        ({"type": "string", "pattern": "b$"}, ["b", "ab"], ["ba"]),
        ({"type": "string", "pattern": "^(a|b)c|d"}, ["xyz"], []),
        ({"type": "string", "pattern": "a|b"}, ["xay", "b"], ["c"]),
        ({"type": "string", "pattern": "a(?=b)"}, ["xyz"], []),
        ({"type": "string", "pattern": "^a+$", "maxLength": 2}, ["aa"], ["aaa", "b"]),
        ({"type": "string", "format": "date"}, ["soon"], []),
        ({"anyOf": [STRING, {"type": "null"}]}, ["x", "null"], []),
        ({"anyOf": [{"type": "integer"}, {"enum": ["auto"]}]}, ["5", "auto"], ["x"]),
        ({"$ref": "#/$defs/n"}, ["x", "5"], []),
        ({"type": "array", "items": {"type": "integer"}}, ["[1, 2]", "[]"], ['["a"]', "1"]),
    ],
    ids=str,
)
def test_value_is_what_its_schema_allows(schema: Any, good: list[str], bad: list[str]) -> None:  # noqa: ANN401
    grammar = bound(schema)

    def verdict(value: str) -> str:
        return judge(
            grammar, f"<tool_call>f<arg_key>a</arg_key><arg_value>{value}</arg_value></tool_call>"
        )

    assert {value: verdict(value) for value in good} == dict.fromkeys(good, "complete")
    assert {value: verdict(value) for value in bad} == dict.fromkeys(bad, "refused")


def test_parameters_stand_in_their_order_and_the_required_ones_are_there() -> None:
    parameters = {"properties": {"a": STRING, "b": STRING, "c": STRING}, "required": ["b", "d"]}
    grammar = grammar_of(MINIMAX_M2, {**parameters, "additionalProperties": {"type": "integer"}})

    def verdict(names: str) -> str:
        values = "".join(f'<parameter name="{name}">1</parameter>\n' for name in names)
        call = f'<invoke name="f">\n{values}</invoke>\n'
        return judge(grammar, f"<minimax:tool_call>\n{call}</minimax:tool_call>")

    assert [verdict(names) for names in ("abcd", "bd", "bcd")] == ["complete"] * 3
    assert [verdict(names) for names in ("ab", "dba", "abbd", "")] == ["refused"] * 4


@pytest.mark.parametrize(
    ("parameters", "verdicts"),
    [
        (None, ["complete", "refused"]),
        ({"properties": {}}, ["complete", "refused"]),
        ({**ANY, "additionalProperties": False}, ["complete", "refused"]),
        (ANY, ["complete", "complete"]),
        ({"additionalProperties": {"type": "integer"}}, ["complete", "refused"]),
    ],
    ids=range(5),
)
def test_parameters_without_names_are_free_where_the_schema_says_so(
    parameters: dict[str, Any] | None, verdicts: list[str]
) -> None:
    grammar = grammar_of(GLM47, parameters)
    free = "<arg_key>x_1</arg_key><arg_value>a</arg_value>"

    assert [judge(grammar, f"<tool_call>f{each}</tool_call>") for each in ("", free)] == verdicts


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        (QWEN3_CODER, "<tool_call>\n<function=now>\n</function>\n</tool_call>"),
        (
            MINIMAX_M2,
            '<minimax:tool_call>\n<invoke name="now">\n</invoke>\n</minimax:tool_call>',
        ),
        (
            DEEPSEEK_V4,
            '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="now">\n\n</｜DSML｜invoke>\n'
            "</｜DSML｜tool_calls>",
        ),
    ],
)
def test_one_call_is_followed_by_no_second(syntax: TaggedSyntax, text: str) -> None:
    opening, closing = syntax.block
    inner = text.removeprefix(opening).removesuffix(closing)
    two = f"{opening}{inner * 2}{closing}" if syntax.is_shared else f"{text}\n{text}"

    assert [judge(grammar_of(syntax, ANY), each) for each in (text, two)] == ["complete"] * 2
    single = grammar_of(syntax, ANY, is_single=True)
    assert [judge(single, each) for each in (text, two)] == ["complete", "refused"]


@pytest.mark.parametrize(
    ("syntax", "parameter"),
    [
        (DEEPSEEK_V4, '<｜DSML｜parameter name="a" string="{}">{}</｜DSML｜parameter>\n'),
        (KIMI_K3, '<|open|>argument key="a" type="{}"<|sep|>{}<|close|>argument<|sep|>'),
    ],
)
def test_kind_is_that_of_the_value(syntax: TaggedSyntax, parameter: str) -> None:
    schema = {"type": ["string", "integer", "null"]}
    grammar = grammar_of(syntax, {"properties": {"a": schema}, "required": ["a"]}, is_single=True)
    is_kimi = syntax is KIMI_K3
    number, nothing = ("number", "null") if is_kimi else ("false", "false")
    text = "string" if is_kimi else "true"

    def verdict(kind: str, value: str) -> str:
        call = syntax.call[0].replace("{}", "f", 1).replace("{}", "1")
        inner = f"{call}{parameter.format(kind, value)}{syntax.call[1]}"
        return judge(grammar, f"{syntax.block[0]}{inner}{syntax.block[1]}")

    good = [(text, "5"), (text, "x"), (number, "5"), (nothing, "null")]
    assert [verdict(kind, value) for kind, value in good] == ["complete"] * 4
    assert verdict(number, "x") == "refused"


def test_words_of_python_are_allowed_where_the_template_writes_them() -> None:
    schema = {"properties": {"a": {"type": ["boolean", "null"]}}}
    call = "<tool_call>\n<function=f>\n<parameter=a>\n{}\n</parameter>\n</function>\n</tool_call>"
    grammar = grammar_of(QWEN3_CODER, schema)

    words = ("True", "false", "None", "null")
    assert [judge(grammar, call.format(word)) for word in words] == ["complete"] * 4
    assert judge(grammar, call.format("none")) == "refused"


@pytest.mark.parametrize(
    ("schema", "value", "verdict"),
    [
        (STRING, "plain", "complete"),
        (STRING, "<![CDATA[a < b]]>", "complete"),
        (STRING, "a & b", "refused"),
        ({"enum": ["a & b", "c"]}, "<![CDATA[a & b]]>", "complete"),
        ({"enum": ["a & b", "c"]}, "c", "complete"),
        ({"type": "string", "maxLength": 2}, "ab", "complete"),
        ({"type": "string", "maxLength": 2}, "a&", "refused"),
    ],
)
def test_text_of_xml_stands_in_cdata_where_it_has_marks(
    schema: dict[str, Any], value: str, verdict: str
) -> None:
    grammar = grammar_of(MINICPM5, {"properties": {"a": schema}})
    call = f'<function name="f"><param name="a">{value}</param></function>'

    assert judge(grammar, call) == verdict


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"properties": {"a": {"type": "string", "format": "date"}}}, "format"),
        ({"properties": {"a": {"type": "string", "pattern": "a(?=b)"}}}, "pattern"),
        ({"properties": {"a": {"type": "string", "pattern": "^a|b$"}}}, "pattern"),
        ({"anyOf": [{"properties": {"a": STRING}}]}, "anyOf"),
    ],
)
def test_strict_function_is_refused_what_no_grammar_says(
    schema: dict[str, Any], keyword: str
) -> None:
    tools = Toolbox([Tool("f", parameters=schema, strict=True)])

    with pytest.raises(InvalidRequest, match=keyword):
        QWEN3_CODER.grammar(Rules(), tools, is_single=True)


def test_texts_of_the_grammar_are_read_as_calls_that_are_valid() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 3},
            "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
            "list": {"type": "array", "items": {"enum": ["a", 1]}, "maxItems": 2},
            "kind": {"enum": ["x", None]},
        },
        "required": ["n", "code"],
    }
    strict = enforceable(parameters, param="tools", is_strict=True)
    toolbox = Toolbox([Tool("f", parameters=parameters), Tool("now")])
    for syntax in (QWEN3_CODER, GLM47, MINICPM5, DEEPSEEK_V4):
        text = random_text(grammar_of(syntax, strict, is_single=True), 1, most_bytes=1000)
        assert text is not None
        parts = fold(read_pieces([text], Writing(calls=(syntax,)), toolbox))

        assert [kind for kind, _ in parts] == ["call", "arguments", "end"]
        if parts[0][1] == "f":
            jsonschema.validate(json.loads(parts[1][1]), parameters)
