"""A caller's schema can be anything at all: it is refused in words, or does no harm."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.request import ChatRequest, Tool, ToolChoice
from appliance.errors import InvalidRequest
from appliance.parsing.format import AnswerFormat
from appliance.parsing.grammar.answer import answer_grammar
from appliance.parsing.grammar.schema import enforceable
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import read_pieces

_SPACE = "]<]minimax[>["
_CALLS = {
    "qwen3_coder": "<function=f>\n<parameter={0}>\n{1}\n</parameter>\n</function>",
    "glm45": "<tool_call>f\n<arg_key>{0}</arg_key>\n<arg_value>{1}</arg_value>\n</tool_call>",
    "minicpm5": '<function name="f"><param name="{0}">{1}</param></function>',
    "minimax_m3": (
        f'{_SPACE}<invoke name="f">{_SPACE}<{{0}}>{_SPACE}<{{0}}>{{1}}{_SPACE}</{{0}}>'
        f"{_SPACE}</{{0}}>{_SPACE}</invoke>"
    ),
    "hermes": '<tool_call>{{"name": "f", "arguments": {{"{0}": "{1}"}}}}</tool_call>',
    "lfm2": "<|tool_call_start|>[f({0}={1})]<|tool_call_end|>",
    "gemma4": "<|tool_call>call:f{{{0}:{1}}}<tool_call|>",
}
"""A call with one argument, in formats that do not read theirs alike."""

_DIGITS = "9" * 5000
_SLOW_PATTERN, _SLOW_KEY = "^(a+)+$", "a" * 60 + "!"
_PATTERNS = (_SLOW_PATTERN, f"a{{{_DIGITS}}}", "(" * 3000, "(?i", "[", r"(a)\1", "")
_KEYWORDS = (
    *("$defs", "$id", "$ref", "$anchor", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if"),
    *("type", "nullable", "const", "enum", "format", "pattern", "minLength", "x-guidance", "a"),
    *("multipleOf", "minimum", "exclusiveMaximum", "items", "prefixItems", "additionalItems"),
    *("unevaluatedItems", "maxItems", "uniqueItems", "contains", "minContains", "properties"),
    *("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("required", "minProperties", "maxProperties", "dependentRequired", "dependencies"),
)
_NUMBERS = (-1, 0.5, 2**53 + 1, 10**400, -(10**400), 1e308)
_WORDS = (
    *("string", "object", "array", "date", "\x00", "#", "#a", "#/$defs/a", f"#/allOf/{_DIGITS}"),
    *("#/enum/-1", "#/%zz/~2", "", _SLOW_KEY, *_PATTERNS),
)
_ODD: tuple[Any, ...] = (None, True, -1, 0.5, 10**400, "", "#", [], [[]], {}, {"a": 5}, [10**400])

_VALUES = st.recursive(
    st.none() | st.booleans() | st.sampled_from((*_NUMBERS, *_WORDS)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_KEYWORDS + _PATTERNS), inner, max_size=3)
    ),
    max_leaves=12,
)
_SCHEMAS = st.dictionaries(st.sampled_from(_KEYWORDS), _VALUES, max_size=4)
_KEYS = st.sampled_from(["a", "0", _SLOW_KEY])
_TEXTS = st.sampled_from(["5", "-0", _DIGITS, "1e400", "[" * 2000, "{'a': None}", "a b", ""])


def _bind(schema: dict[str, Any]) -> None:
    """Demand an answer of the schema: all of it, or what can be had."""
    for is_strict in (True, False):
        try:
            enforceable(schema, param="here", is_strict=is_strict)
        except InvalidRequest as refused:
            assert len(str(refused)) < 500


def _demand_call(tools: str, tool: Tool) -> None:
    request = ChatRequest("m", tools=(tool,), tool_choice=ToolChoice("required"))
    try:
        answer_grammar(request, AnswerFormat("none", tools))
    except InvalidRequest as refused:
        assert len(str(refused)) < 500


def _read_call(tools: str, schema: dict[str, Any], key: str, value: str) -> None:
    text = _CALLS[tools].format(key, value)
    toolbox = Toolbox([Tool("f", parameters=schema)])
    assert read_pieces([text[:-20], text[-20:]], AnswerFormat("none", tools), toolbox)


@pytest.mark.parametrize("keyword", _KEYWORDS)
def test_keyword_may_have_any_value(keyword: str) -> None:
    for value in _ODD:
        schema = {keyword: value}
        _bind(schema)
        _read_call("minimax_m3", {**schema, "properties": {"a": schema}}, "a", "[5]")


@pytest.mark.parametrize("tools", _CALLS)
@pytest.mark.parametrize("pattern", _PATTERNS, ids=lambda pattern: pattern[:8])
def test_pattern_of_a_caller_is_not_run(tools: str, pattern: str) -> None:
    schema = {"patternProperties": {pattern: {"type": "integer"}}}

    _read_call(tools, schema, _SLOW_KEY, "5")


@pytest.mark.parametrize("tools", _CALLS)
@pytest.mark.parametrize("unit", [r"\d", "[", "(", "[(", "(|", r"[\]"])
def test_pattern_of_a_caller_takes_little_time(tools: str, unit: str) -> None:
    text = {"type": "string", "pattern": f"^(?x)a # {unit * 400}$"}
    in_brackets = {"type": "string", "pattern": f"^(?x)a # [{unit * 400}$"}
    parameters = {"type": "object", "properties": {"a": text, "b": in_brackets}}
    start = time.process_time()

    _demand_call(tools, Tool("f", parameters=parameters, strict=True))

    assert time.process_time() - start < 1


@settings(max_examples=15, deadline=None)
@given(_SCHEMAS, _KEYS, _TEXTS)
def test_any_schema_is_refused_in_words_or_does_no_harm(
    schema: dict[str, Any], key: str, value: str
) -> None:
    whole = {"type": "object", "properties": {key: schema}, "additionalProperties": schema}
    for each in (schema, whole):
        _bind(each)
        for tools in _CALLS:
            _demand_call(tools, Tool("f", parameters=each, strict=len(key) > 1))
            _read_call(tools, each, key, value)
