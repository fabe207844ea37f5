"""A structured answer is calls or the structure's text, which leaves as it stands."""

import json
from typing import Literal

import pytest

from appliance.chat.event import Delta, TextDelta, ToolCallDelta
from appliance.chat.request import ChatRequest, Structure, Tool, ToolChoice
from appliance.engine.wire import Row, TokenLogprob
from appliance.parsing.format import AnswerFormat
from appliance.pipeline.answer import Answer, Reading

Mode = Literal["auto", "none", "required", "named"]
TOOL = Tool("f", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
CALLS = {
    "hermes": '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
    "qwen3_coder": "<function=f><parameter=a>1</parameter></function>",
    "mistral": '[TOOL_CALLS]f[ARGS]{"a": 1}',
    "llama3": '{"name": "f", "parameters": {"a": 1}}',
    "json": '{"name": "f", "arguments": {"a": 1}}',
}
BARE = frozenset(("llama3", "json"))
STRUCTURES = [Structure("object"), Structure("regex", "(?s:.*)"), Structure("schema", {})]


def answer(
    form: str, text: str, structure: Structure, mode: Mode = "auto", *, has_logprobs: bool = False
) -> list[Delta]:
    """Return what leaves of a text that comes by letters."""
    choice = ToolChoice(mode, "f" if mode == "named" else None)
    logprobs = 0 if has_logprobs else None
    request = ChatRequest(
        "m", tools=(TOOL,), tool_choice=choice, structure=structure, logprobs=logprobs
    )
    reader = Answer(request, Reading(AnswerFormat("qwen3", form)))
    rows = [
        Row("r", letter, 1, logprobs=[TokenLogprob(0, -1.0, letter.encode())], lengths=[1])
        for letter in text
    ]
    return [delta for row in rows for delta in reader.push(row)] + reader.flush()


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@pytest.mark.parametrize("mode", ["auto", "none"])
@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda each: each.kind)
@pytest.mark.parametrize("form", CALLS)
def test_structure_is_text_whatever_is_in_it(form: str, structure: Structure, mode: Mode) -> None:
    doc = f"Write {CALLS[form]} or <think>so</think>\n<think>"
    text = json.dumps({"doc": doc}) if structure.kind != "regex" else doc

    deltas = answer(form, text, structure, mode, has_logprobs=True)

    assert all(isinstance(delta, TextDelta) for delta in deltas)
    assert text_of(deltas) == text
    tokens = [each.token for delta in deltas for each in delta.logprobs or ()]  # type: ignore[union-attr]
    assert b"".join(tokens).decode() == text


@pytest.mark.parametrize("form", CALLS)
def test_json_that_could_be_a_call_is_the_structure(form: str) -> None:
    for text in (CALLS["json"], CALLS["llama3"], f"[{CALLS['json']}]"):
        assert text_of(answer(form, text, Structure("object"))) == text


@pytest.mark.parametrize("form", CALLS)
def test_call_stands_in_place_of_the_structure_or_must(form: str) -> None:
    modes: list[Mode] = ["required", "named"] if form in BARE else ["auto", "required", "named"]
    for mode in modes:
        deltas = answer(form, f"<think>t</think>\n{CALLS[form]}", Structure("object"), mode)

        names = [each.name for each in deltas if isinstance(each, ToolCallDelta) and each.name]
        assert (names, text_of(deltas)) == (["f"], "")


def test_structure_leaves_while_it_is_written() -> None:
    pieces = ['{"doc": "a ', "<tool_call>", " b", '"}']
    request = ChatRequest("m", tools=(TOOL,), structure=Structure("object"))
    reader = Answer(request, Reading(AnswerFormat("qwen3", "hermes")))

    leaving = [text_of(list(reader.push(Row("r", piece, 1)))) for piece in pieces]

    assert leaving == ['{"doc": "a', " <tool_call>", " b", '"}']
