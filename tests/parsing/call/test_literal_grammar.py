import json
from itertools import islice
from typing import Any

import jsonschema
import pytest

from appliance.chat.grammar import Grammar
from appliance.chat.request import Tool
from appliance.errors import InvalidRequest
from appliance.parsing.call.gemma import FUNCTION_GEMMA, GEMMA4
from appliance.parsing.call.pythonic import (
    GEMMA3,
    LFM2,
    LLAMA3_BUILTIN,
    OLMO,
    PYTHONIC,
)
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.grammar.schema import enforceable
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox
from tests.examples import examples
from tests.parsing.answer_reading import fold, read_pieces
from tests.parsing.call.writing import Writing
from tests.parsing.grammar.trial import judge, random_text

SYNTAXES = (PYTHONIC, LFM2, GEMMA3, OLMO, LLAMA3_BUILTIN, GEMMA4, FUNCTION_GEMMA)
NONE: dict[str, Any] = {"type": "object", "properties": {}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NODE = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["n"],
}


def bound(syntax: CallSyntax, *tools: Tool, is_single: bool = False) -> Grammar:
    """Return the grammar of calls, once the schemas are in the form that all grammars take."""
    toolbox = Toolbox(
        Tool(
            tool.name,
            parameters=enforceable(
                tool.parameters or NONE, param="tools", is_strict=bool(tool.strict)
            ),
            strict=tool.strict,
        )
        for tool in tools
    )
    rules = Rules()
    return rules.build(syntax.grammar(rules, toolbox, is_single=is_single))


def arguments(**properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("syntax", "texts"),
    [
        (PYTHONIC, ['[f(city="a\\"b")]', '[f(city="a"), f(city="b")]']),
        (LFM2, ['<|tool_call_start|>[f(city="a"), f(city="")]<|tool_call_end|>']),
        (GEMMA3, ['```tool_code\nf(city="a")\nf(city="b")\n```']),
        (OLMO, ['<function_calls>f(city="a")\nf(city="b")</function_calls>']),
        (LLAMA3_BUILTIN, ['<|python_tag|>f(city="a")']),
        (GEMMA4, ['<|tool_call>call:f{city:<|"|>a"\\\n<|"|>}<tool_call|>' * 2]),
        (
            FUNCTION_GEMMA,
            ["<start_function_call>call:f{city:<escape>a<escape>}<end_function_call>"],
        ),
    ],
)
def test_calls_are_bound_to_how_the_family_writes_them(
    syntax: CallSyntax, texts: list[str]
) -> None:
    grammar = bound(syntax, Tool("f", parameters=CITY))

    assert [judge(grammar, text) for text in texts] == ["complete"] * len(texts)
    for text in ("f(city='a')", "[f(city=5)]", "[f()]", "[g()]", texts[0].replace("city", "town")):
        assert judge(grammar, text) == "refused"


def test_single_call_is_one() -> None:
    for syntax, text, more in (
        (PYTHONIC, "[f()]", "[f(), f()]"),
        (GEMMA4, "<|tool_call>call:f{}<tool_call|>", "<|tool_call>call:f{}<tool_call|>" * 2),
    ):
        grammar = bound(syntax, Tool("f"), is_single=True)

        assert judge(grammar, text) == "complete"
        assert judge(grammar, more) == "refused"


@pytest.mark.parametrize(
    ("parameters", "python", "gemma"),
    [
        ({"type": "object", "properties": {}}, "", ""),
        ({"type": "object"}, "", ""),
        ({"type": "object"}, 'a=1, b_2=[None, {"k": True}]', "a:1,b_2:[null,{k:true}]"),
        (arguments(n={"type": "integer", "minimum": 3}), "n=4", "n:4"),
        (arguments(b={"type": "boolean"}), "b=True", "b:true"),
        (arguments(b={"type": ["boolean", "null"]}), "b=None", "b:null"),
        (arguments(x={}), 'x=["a", -1.5, {}]', 'x:[<|"|>a<|"|>,-1.5,{}]'),
        (arguments(x={"enum": ["a", 1, None, [True, 2]]}), "x=[True, 2]", "x:[true,2]"),
        (arguments(x={"const": {"k": "v", "l": "w"}}), 'x={"k": "v", "l": "w"}',
         'x:{k:<|"|>v<|"|>,l:<|"|>w<|"|>}'),
        (arguments(x={"anyOf": [{"type": "integer"}, {"type": "null"}]}), "x=5", "x:5"),
        (arguments(x={"type": "array", "items": {"type": "integer"}, "minItems": 2}),
         "x=[1, 2, 3]", "x:[1,2,3]"),
        (arguments(x={"type": "array", "maxItems": 0}), "x=[]", "x:[]"),
        (arguments(x={"type": "array", "items": False}), "x=[]", "x:[]"),
        (arguments(x={"type": "object", "additionalProperties": {"type": "integer"}}),
         'x={"a": 1, "b": 2}', "x:{a:1,b:2}"),
        ({"$ref": "#/$defs/node", "$defs": {"node": NODE}},
         'n=1, next={"n": 2, "next": {"n": 3}}', "n:1,next:{n:2,next:{n:3}}"),
        (arguments(B={"type": "null"}, a={"type": "null"}), "B=None, a=None", "a:null,B:null"),
        ({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}},
         "b=None", "b:null"),
    ],
)  # fmt: skip
def test_arguments_are_bound_by_their_schema(
    parameters: dict[str, Any], python: str, gemma: str
) -> None:
    tool = Tool("f", parameters=parameters)

    assert judge(bound(PYTHONIC, tool), f"[f({python})]") == "complete"
    assert judge(bound(GEMMA4, tool), f"<|tool_call>call:f{{{gemma}}}<tool_call|>") == "complete"


@pytest.mark.parametrize(
    ("parameters", "python"),
    [
        ({"type": "object", "properties": {}}, "a=1"),
        (arguments(n={"type": "integer", "minimum": 3}), "n=2"),
        (arguments(b={"type": "boolean"}), "b=true"),
        (arguments(x={"enum": ["a", 1]}), "x=2"),
        (arguments(x={"type": "array", "items": {"type": "integer"}, "minItems": 2}), "x=[1]"),
        (arguments(x={"type": "array", "maxItems": 1}), "x=[1, 2]"),
        (arguments(x={"type": "string", "pattern": "^[ab]+$"}), 'x="c"'),
        ({"$ref": "#/$defs/node", "$defs": {"node": NODE}}, 'n=1, next={"m": 2}'),
        (arguments(b={"type": "null"}, a={"type": "null"}), "a=None, b=None"),
    ],
)
def test_arguments_that_are_not_valid_are_refused(parameters: dict[str, Any], python: str) -> None:
    assert judge(bound(PYTHONIC, Tool("f", parameters=parameters)), f"[f({python})]") == "refused"


def test_name_that_is_no_word_is_quoted_or_left_out() -> None:
    names = {"a:b": {"type": "null"}, "c": {"type": "null"}}
    tool = Tool("f", parameters=arguments(**names))
    loose = Tool("f", parameters={"type": "object", "properties": names})

    assert judge(bound(PYTHONIC, tool), "[f(c=None)]") == "complete"
    assert judge(bound(PYTHONIC, loose), "[f()]") == "complete"
    gemma = '<|tool_call>call:f{<|"|>a:b<|"|>:null,c:null}<tool_call|>'
    assert judge(bound(GEMMA4, tool), gemma) == "complete"


@pytest.mark.parametrize(
    ("syntax", "parameters", "keyword"),
    [
        (GEMMA4, arguments(x={"type": "string", "pattern": "^a"}), "pattern"),
        (GEMMA4, arguments(x={"type": "array", "items": {"type": "string", "minLength": 2}}),
         "minLength"),
        (PYTHONIC, arguments(x={"type": "array", "prefixItems": [{}]}), "prefixItems"),
        (PYTHONIC, arguments(**{"a b": {}}), "required"),
        (PYTHONIC, arguments(x={"type": "object", "patternProperties": {"^a": {}}}),
         "patternProperties"),
        (PYTHONIC, arguments(x={"type": "object", "properties": {"a": {}},
                                "anyOf": [{"required": ["a"]}]}), "anyOf"),
        (PYTHONIC, {"type": "object", "anyOf": [CITY]}, "anyOf"),
        (PYTHONIC, {**arguments(x={"$ref": "#/$defs/o", "required": ["n"]}), "$defs": {"o": NONE}},
         "ref"),
    ],
)  # fmt: skip
def test_strict_function_is_refused_where_no_rule_can_say_its_schema(
    syntax: CallSyntax, parameters: dict[str, Any], keyword: str
) -> None:
    bound(syntax, Tool("f", parameters=parameters))

    with pytest.raises(InvalidRequest, match=keyword) as caught:
        bound(syntax, Tool("f", parameters=parameters, strict=True))

    assert caught.value.param == "tools"


RICH = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["a", "b"]},
        "flags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
        "deep": {"$ref": "#/$defs/node"},
        "none": {"type": ["null", "integer"]},
        "text": {"type": "string"},
    },
    "required": ["kind", "none"],
    "$defs": {"node": NODE},
}


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_any_text_of_the_grammar_is_read_as_valid_calls(syntax: CallSyntax) -> None:
    tools = Tool("f", parameters=RICH), Tool("g", parameters=CITY)
    grammar = bound(syntax, *tools)

    texts = (random_text(grammar, seed, most_bytes=600) for seed in range(20))

    finished = list(islice((text for text in texts if text is not None), examples(20)))
    assert finished
    for text in finished:
        parts = fold(read_pieces([text], Writing(calls=(syntax,)), Toolbox(tools)))
        assert {kind for kind, _ in parts} == {"call", "arguments", "end"}
        for (_, name), (_, said), (_, end) in zip(*[iter(parts)] * 3, strict=True):
            assert end == "sound"
            jsonschema.validate(json.loads(said), RICH if name == "f" else CITY)
