"""What a strict function's grammar allows is read as valid arguments, however they are written."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import pytest

from appliance.chat.grammar import Grammar
from appliance.chat.request import ChatRequest, Tool, ToolChoice
from appliance.errors import InvalidRequest
from appliance.parsing.format import AnswerFormat
from appliance.parsing.grammar.answer import answer_grammar
from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox
from tests.parsing.grammar.random_schema import SchemaDraw
from tests.parsing.grammar.trial import judge, matcher_of, random_text
from tests.parsing.proof.reading import hear

_DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="a" string="$">{}</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>"
)
_KIMI = (
    '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
    '<|open|>argument key="a" type="$"<|sep|>{}<|close|>argument<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|>"
)
_CALLS = {
    "qwen3_coder": "<tool_call>\n<function=f>\n<parameter=a>\n{}\n</parameter>\n</function>\n"
    "</tool_call>",
    "seed": "<seed:tool_call>\n<function=f>\n<parameter=a>{}</parameter>\n</function>\n"
    "</seed:tool_call>",
    "glm47": "<tool_call>f<arg_key>a</arg_key><arg_value>{}</arg_value></tool_call>",
    "minicpm5": '<function name="f"><param name="a">{}</param></function>',
    "deepseek_v32": _DSML,
    "kimi_k3": _KIMI,
    "minimax_m3": '~<tool_call>\n~<invoke name="f">~<a>{}~</a>~</invoke>\n~</tool_call>',
    "lfm2": "<|tool_call_start|>[f(a={})]<|tool_call_end|>",
    "gemma4": "<|tool_call>call:f{{a:{}}}<tool_call|>",
    "hermes": '<tool_call>\n{{"name": "f", "arguments": {{"a": {}}}}}\n</tool_call>',
}
"""A call in each spelling of values, of which `a` is the only one."""
_KINDS = {"deepseek_v32": ("true", "false"), "kimi_k3": ("string", "number", "boolean", "array")}
_WORDS = (
    *("", " ", "\n", "x", "red", "x y", "12px", "2024-01-01", "-", "5", "15", " 15 ", "15,", "+15"),
    *("-1.50", "1e400", "0x1F", "1_5", "(7)", "((15,))", "1", "1.0", "True", "true", "False"),
    *("(false)", "false, ", "None", "null", " null ", "[", "{", "(", "[1]", '["x"]', "['x']", "[]"),
    *("(1, 2)", "[1],", '["1"]', "[1e400]", "{}", '{"a": 1}', "{'a': 1}", '{"a": "x"}', " [1]"),
    *('"5"', '"x"', '"null"', '<|"|>5<|"|>', "<![CDATA[5]]>", "<![CDATA[a<b]]>", "a<b", "<b>"),
    *("~<item>5~</item>", "~<item>x~</item>", "~<a>5~</a>", " ~<a>x~</a>", "~<item>~</item>"),
)
"""What means different things to different types."""
_PARTS: tuple[dict[str, Any], ...] = (
    *({}, {"type": "null"}, {"type": "boolean"}, {"const": True}, {"const": None}),
    *({"type": "integer"}, {"type": "integer", "minimum": 10}, {"type": "number", "maximum": 2}),
    *({"enum": [1, "red"]}, {"enum": ["1", 2]}, {"enum": ["null", "5"]}, {"const": [1]}),
    *({"type": "string"}, {"type": "string", "minLength": 2}, {"type": "string", "maxLength": 4}),
    *({"type": "string", "pattern": r"^\S*$"}, {"type": ["string", "number"], "minimum": 10}),
    *({"type": "array", "items": {"type": "integer"}}, {"type": "array", "maxItems": 0}),
    *(
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
        {"type": "array"},
    ),
    {"type": "object", "properties": {"a": {"type": "integer", "maximum": 3}}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
    *({"type": "object"}, {"type": ["array", "object"], "minItems": 1}),
)


def _request(tool: Tool) -> ChatRequest:
    return ChatRequest("m", tools=(tool,), tool_choice=ToolChoice("named", "f"))


def _grammar(family: str, parameters: dict[str, Any]) -> Grammar | None:
    """Return what calls of a strict function are bound by; None: it is refused."""
    tool = Tool("f", parameters=parameters, strict=True)
    try:
        return answer_grammar(_request(tool), AnswerFormat("none", family))
    except InvalidRequest:
        return None


def _check(family: str, parameters: dict[str, Any], text: str) -> Any:  # noqa: ANN401
    """Return the arguments of the one call that a text is, which must be sound and valid."""
    toolbox = Toolbox([Tool("f", parameters=parameters, strict=True)])
    heard = hear(AnswerParser(AnswerFormat("none", family), toolbox), [text])
    assert heard.is_sound and len(heard.calls) == 1 and not "".join(heard.texts).strip(), text
    arguments = json.loads(heard.calls[0][1])
    jsonschema.Draft202012Validator(parameters).validate(arguments)
    return arguments


def _parameters(schema: dict[str, Any]) -> dict[str, Any]:
    shared = schema.pop("$defs", {})
    root = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return {**root, "additionalProperties": False, "$defs": shared}


def _calls(family: str) -> Iterator[str]:
    """Yield calls with values that may be right or wrong."""
    call = _CALLS[family]
    for kind in _KINDS.get(family, ("",)):
        for word in _WORDS:
            yield call.format(word).replace("$", kind).replace("~", "]<]minimax[>[")


def _try_words(family: str, schema: dict[str, Any]) -> int:
    """Check all that is allowed of the calls and return how many these are."""
    parameters = _parameters(schema)
    grammar = _grammar(family, parameters)
    if grammar is None:
        return 0
    matcher, num_allowed = matcher_of(grammar), 0
    for text in _calls(family):
        matcher.reset()
        tokens = list(text.encode())
        if matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting():
            num_allowed += 1
            _check(family, parameters, text)
    return num_allowed


def _try_random(family: str, seed: int) -> bool:
    """Say whether a drawn text of a drawn schema has ended, and was valid, or all was refused."""
    parameters = _parameters(SchemaDraw(seed).schema(is_sound=True))
    grammar = _grammar(family, parameters)
    if grammar is None:
        return True
    marks = tuple(mark for mark in grammar.marks if "/" in mark or "close" in mark)
    text = random_text(grammar, seed, most_bytes=600, closings=(*marks, '"', "1e400", "null", "5"))
    if text is not None:
        _check(family, parameters, text)
    return text is not None


def _union(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    return {"anyOf": draw.sample(_PARTS, draw.choice((1, 2, 2, 3)))}


@pytest.mark.parametrize("family", _CALLS)
def test_value_is_never_read_as_one_that_is_not_allowed(family: str) -> None:
    assert sum(_try_words(family, _union(seed)) for seed in range(5)) > 5


@pytest.mark.slow
@pytest.mark.parametrize("family", _CALLS)
def test_value_of_many_unions_is_never_read_as_one_that_is_not_allowed(family: str) -> None:
    assert sum(_try_words(family, _union(seed)) for seed in range(5, 50)) > 100


@pytest.mark.parametrize("family", _CALLS)
def test_drawn_arguments_are_valid(family: str) -> None:
    assert sum(_try_random(family, seed) for seed in range(14, 18)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("family", _CALLS)
def test_many_drawn_arguments_are_valid(family: str) -> None:
    assert sum(_try_random(family, seed) for seed in range(18, 80)) > 50


_TEXT = {"type": "string"}
_SIZE = {"type": "integer", "minimum": 10}
_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}}


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    [
        ([_TEXT, {"type": "null"}], ["null", "5", "<b>", "[1", " (x)", ""], []),
        ([_TEXT, _SIZE], ["15", "12px", "2024-01-01", "a<b", "x 5", "", " "], ["5", "(7)", "1_5,"]),
        ([_TEXT, _TEXTS], ['["x"]', "a [<b>]", "5", "\n"], ['[""]', "['']", " [5]", "(1, 2)"]),
        ([_TEXT, {"type": "object", "maxProperties": 0}], ["{}", "a {}"], ['{"a": 1}', "{'a': 1}"]),
        ([_TEXT, {"const": True}], ["true", "truth", "a"], ["false", "False", " false,"]),
        ([{**_TEXT, "pattern": "^[0-9x]+$"}, _SIZE], ["15", "5x"], ["5", "0x9"]),
        ([{**_TEXT, "maxLength": 4}, _TEXTS], ['["long"]', "long"], ["longer", "[x"]),
        ([_SIZE, {"enum": ["auto", None]}], ["15", "auto", "null"], ["5", "a"]),
        ([_TEXT, {"type": "integer"}], ["(see) x", "(5", "5"], ["(5)", " (5) ,"]),
        ([{}], ["[x", "(x)", "{% x", "5", '["x"]'], []),
        ([{"type": ["string", "number", "array"]}], ["[x", "(x)", "5", '["x"]'], []),
    ],
    ids=str,
)
def test_text_is_whatever_no_other_type_is_written_like(
    options: list[dict[str, Any]], good: list[str], bad: list[str]
) -> None:
    grammar = _grammar("qwen3_coder", _parameters({"anyOf": options}))
    assert grammar is not None

    verdicts = {word: judge(grammar, _CALLS["qwen3_coder"].format(word)) for word in good + bad}

    assert verdicts == dict.fromkeys(good, "complete") | dict.fromkeys(bad, "refused")


@pytest.mark.parametrize(
    ("family", "value"),
    [
        ("qwen3_coder", "a</parameter>"),
        ("minicpm5", "<a>]]>"),
        ("minimax_m3", "]<]minimax[>[</a>"),
        ("gemma4", '<|"|>'),
        ("glm47", "null"),
        ("seed", " (1,)"),
    ],
)
def test_listed_text_that_would_be_read_as_another_is_refused(family: str, value: str) -> None:
    tool = Tool("f", parameters=_parameters({"enum": [None, [1], value]}), strict=True)
    loose = msgspec.structs.replace(tool, strict=False)

    with pytest.raises(InvalidRequest, match=re.escape(repr(value))):
        answer_grammar(_request(tool), AnswerFormat("none", family))
    assert answer_grammar(_request(loose), AnswerFormat("none", family))


_MARKED_NAMES = {
    "qwen3_coder": "a>b",
    "glm47": "a</arg_key>b",
    "kimi_k3": 'a" type="b',
    "minicpm5": 'a">b',
    "minimax_m3": "a>b",
}


@pytest.mark.parametrize("family", _MARKED_NAMES)
@pytest.mark.parametrize("name", ["", "a\nb", "a" * 257, "{mark}"])
def test_name_that_cannot_be_read_is_refused(family: str, name: str) -> None:
    name = name.format(mark=_MARKED_NAMES[family])
    tool = Tool("f", parameters={"properties": {"size, größe": {}, name: {}}}, strict=True)

    with pytest.raises(InvalidRequest, match=re.escape(f"uses {name!r:.80}")):
        answer_grammar(_request(tool), AnswerFormat("none", family))


def test_names_of_no_end_are_refused_where_one_that_comes_twice_breaks_a_call() -> None:
    parameters = {"type": "object", "additionalProperties": {"type": "integer"}}

    assert _grammar("glm47", parameters) is None
    assert _grammar("hermes", parameters) is not None


@pytest.mark.parametrize("family", _CALLS)
def test_options_that_lead_nowhere_are_left_out(family: str) -> None:
    loop = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/loop"}]}
    never = {"type": "string", "anyOf": [{"type": "integer"}, False, {"enum": [1]}]}
    nothing = {"type": "array", "items": never}
    properties = {"a": {"$ref": "#/$defs/loop"}, "b": never, "c": nothing}
    shared = {"$defs": {"loop": loop}}
    parameters = {"type": "object", "properties": properties, "required": ["a", "c"], **shared}
    grammar = _grammar(family, parameters)
    assert grammar is not None

    texts = [random_text(grammar, seed) for seed in range(3)]

    assert [_check(family, parameters, text or "") for text in texts] == [{"a": None, "c": []}] * 3
