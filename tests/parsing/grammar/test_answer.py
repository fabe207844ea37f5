"""What an answer may be: text, calls or a form, as the request demands."""

from typing import Any

import pytest

from appliance.chat.grammar import Grammar
from appliance.chat.request import ChatRequest, Structure, Tool, ToolChoice
from appliance.errors import InvalidRequest
from appliance.parsing.format import AnswerFormat
from appliance.parsing.grammar.answer import answer_grammar, bound_form
from appliance.parsing.grammar.check import check_grammar
from tests.parsing.grammar.trial import allowed_start, judge

_QWEN = AnswerFormat("qwen3", "hermes")
_PLAIN = AnswerFormat()
_HARMONY = AnswerFormat("harmony", "harmony")
_PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_WEATHER = Tool("weather", parameters=_PLACE, strict=True)
_NOW = Tool("now")
_TOOLS = (_WEATHER, _NOW)
_FORM = Structure("schema", {"properties": {"a": {"type": "boolean"}}, "required": ["a"]})
_CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
_OTHER = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


def _grammar(form: AnswerFormat, mode: Any = "auto", **fields: Any) -> Grammar:  # noqa: ANN401
    name = fields.pop("name", None)
    request = ChatRequest("m", tool_choice=ToolChoice(mode, name), **fields)
    grammar = answer_grammar(request, form)
    assert grammar is not None
    check_grammar(grammar)
    return grammar


@pytest.mark.parametrize(
    "request_",
    [
        ChatRequest("m"),
        ChatRequest("m", tools=(_NOW,)),
        ChatRequest("m", tools=_TOOLS, tool_choice=ToolChoice("none")),
    ],
)
def test_answer_is_free_if_nothing_is_demanded(request_: ChatRequest) -> None:
    assert answer_grammar(request_, _QWEN) is None


def test_answer_is_free_where_no_calls_can_be_read() -> None:
    assert answer_grammar(ChatRequest("m", tools=_TOOLS), _PLAIN) is None


def test_structure_is_the_whole_answer() -> None:
    grammar = _grammar(_QWEN, structure=_FORM)

    assert judge(grammar, '{"a": true}') == "complete"
    assert judge(grammar, '\n{"a": true}') == "refused"
    assert judge(grammar, _CALL) == "refused"


def test_required_calls_are_one_or_more() -> None:
    grammar = _grammar(_QWEN, "required", tools=_TOOLS)

    assert judge(grammar, _CALL) == "complete"
    assert judge(grammar, f"{_CALL}\n{_OTHER}") == "complete"
    assert judge(grammar, "It rains.") == "refused"
    assert judge(grammar, _CALL.replace('"Rome"', "5")) == "refused"
    assert judge(grammar, _OTHER.replace("{}", '{"at": 5}')) == "refused"


def test_required_call_is_one_without_parallel_calls() -> None:
    grammar = _grammar(_QWEN, "required", tools=_TOOLS, allows_parallel_calls=False)

    assert judge(grammar, _CALL) == "complete"
    assert allowed_start(grammar, f"{_CALL}\n{_OTHER}") == _CALL


def test_named_call_is_one_of_that_name() -> None:
    grammar = _grammar(_QWEN, "named", name="now", tools=_TOOLS)

    assert judge(grammar, _OTHER) == "complete"
    assert judge(grammar, _CALL) == "refused"
    assert allowed_start(grammar, f"{_OTHER}\n{_OTHER}") == _OTHER


def test_calls_may_stand_in_place_of_the_structure() -> None:
    grammar = _grammar(_QWEN, structure=_FORM, tools=_TOOLS)

    assert judge(grammar, '{"a": true}') == "complete"
    assert judge(grammar, _CALL) == "complete"
    assert judge(grammar, f'{{"a": true}}{_CALL}') == "refused"


def test_calls_that_are_demanded_leave_no_place_for_the_structure() -> None:
    grammar = _grammar(_QWEN, "required", structure=_FORM, tools=_TOOLS)

    assert judge(grammar, '{"a": true}') == "refused"


def test_calls_in_free_text_are_right() -> None:
    grammar = _grammar(_QWEN, tools=_TOOLS)

    for text in ("", "It < rains.", f"I look.\n{_CALL}\n{_OTHER} Done.", "<tool", _CALL):
        assert judge(grammar, text) == "complete"
    assert judge(grammar, "Look: <tool_call>") == "incomplete"
    assert judge(grammar, f"Look: {_CALL.replace('city', 'town')}") == "refused"
    assert judge(grammar, f"Look: {_CALL} and <tool_call>no") == "refused"


@pytest.mark.parametrize(
    ("tools", "call"),
    [
        ("functools", 'functools[{"name": "now", "arguments": {}}]'),
        ("gemma4", "<|tool_call>call:now{}<tool_call|>"),
        (
            "solar",
            "<|begin|>assistant<|tool_calls|><|tool_call:begin|>abcdefghij<|tool_call:name|>now"
            "<|tool_call:args|>{}<|tool_call:end|><|calls|>",
        ),
    ],
)
def test_calls_in_free_text_are_right_however_they_begin(tools: str, call: str) -> None:
    grammar = _grammar(AnswerFormat("none", tools), tools=_TOOLS)

    assert judge(grammar, f"I look. {call}") == "complete"
    assert judge(grammar, f"I look. {call.replace('now', 'then')}") == "refused"


def test_free_text_has_one_call_without_parallel_calls() -> None:
    grammar = _grammar(_QWEN, tools=_TOOLS, allows_parallel_calls=False)

    assert judge(grammar, f"Look: {_CALL} Done.") == "complete"
    assert judge(grammar, f"Look: {_CALL}\n{_OTHER}") == "refused"


def test_bare_calls_are_told_from_text_by_how_they_begin() -> None:
    grammar = _grammar(AnswerFormat("none", "llama3"), tools=_TOOLS)

    assert judge(grammar, 'Say {"a": 1}') == "complete"
    assert judge(grammar, '{"name": "now", "parameters": {}}') == "complete"
    assert judge(grammar, '{"name": "then", "parameters": {}}') == "refused"


def test_model_without_calls_writes_demanded_ones_as_plain_json() -> None:
    request = ChatRequest("m", tools=_TOOLS, tool_choice=ToolChoice("required"))

    form = bound_form(_PLAIN, request)
    grammar = _grammar(_PLAIN, "required", tools=_TOOLS)

    assert form == AnswerFormat("none", "json", is_bound=True)
    assert bound_form(_QWEN, request).tools == "hermes"
    assert bound_form(_PLAIN, ChatRequest("m", tools=_TOOLS)) == _PLAIN
    assert judge(grammar, '{"name": "now", "arguments": {}}') == "complete"


def test_structure_stands_in_a_message_of_harmony() -> None:
    grammar = _grammar(_HARMONY, structure=_FORM, tools=_TOOLS)
    call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>"

    assert judge(grammar, '<|channel|>final<|message|>{"a": true}') == "complete"
    assert judge(grammar, '<|start|>assistant<|channel|>final<|message|>{"a": true}') == "complete"
    assert judge(grammar, call) == "complete"
    assert judge(grammar, '{"a": true}') == "refused"


def test_free_text_of_harmony_is_a_message_or_calls() -> None:
    grammar = _grammar(_HARMONY, tools=_TOOLS)

    assert judge(grammar, "<|channel|>final<|message|>It rains.") == "complete"
    assert judge(grammar, "<|channel|>commentary to=functions.then") == "refused"


def test_free_text_of_functionary_is_for_all() -> None:
    grammar = _grammar(AnswerFormat("none", "functionary"), tools=_TOOLS)

    assert judge(grammar, "all\nIt rains.") == "complete"
    assert judge(grammar, "now\n{}") == "complete"
    assert judge(grammar, "then\n{}") == "refused"


def test_strict_tool_that_cannot_be_enforced_is_refused() -> None:
    parameters = {"properties": {"tags": {"type": "array", "uniqueItems": True}}}
    strict = Tool("mark", parameters=parameters, strict=True)
    loose = Tool("mark", parameters=parameters)

    with pytest.raises(InvalidRequest, match=r"'mark'.*'uniqueItems' at #/properties/tags") as bad:
        _grammar(_QWEN, tools=(strict,))
    grammar = _grammar(_QWEN, "required", tools=(loose,))

    assert bad.value.param == "tools"
    call = '<tool_call>\n{"name": "mark", "arguments": {"tags": [1]}}\n</tool_call>'
    assert judge(grammar, call) == "complete"


@pytest.mark.parametrize("parameters", [{"type": "string"}, {"type": ["null", "array"]}])
def test_tool_whose_parameters_are_no_object_is_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"'t'.*no object") as refused:
        _grammar(_QWEN, "required", tools=(Tool("t", parameters=parameters),))

    assert refused.value.param == "tools"


@pytest.mark.parametrize(
    ("choice", "tools"), [(ToolChoice("named", "then"), _TOOLS), (ToolChoice("required"), ())]
)
def test_tool_that_is_demanded_must_be_there(choice: ToolChoice, tools: tuple[Tool, ...]) -> None:
    with pytest.raises(InvalidRequest, match="no tool") as refused:
        answer_grammar(ChatRequest("m", tools=tools, tool_choice=choice), _QWEN)

    assert refused.value.param == "tool_choice"


def test_structure_of_functionary_is_for_all() -> None:
    grammar = _grammar(AnswerFormat("none", "functionary"), structure=_FORM)

    assert judge(grammar, 'all\n{"a": true}') == "complete"
