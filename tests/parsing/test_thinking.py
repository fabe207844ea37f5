"""It is known at every token of an answer whether it is one of a thought, or may begin one."""

import pytest

from appliance.chat.request import Tool
from appliance.parsing.format import AnswerFormat
from appliance.parsing.parsed import Place
from appliance.parsing.parser import AnswerParser
from appliance.parsing.thinking import ThoughtCounter
from appliance.parsing.toolbox import Toolbox

TOOLS = Toolbox([Tool("f")])
HERMES = AnswerFormat("qwen3", "hermes")
GIGACHAT = AnswerFormat("qwen3", "gigachat")
GRANITE = AnswerFormat("granite", "functools")
HARMONY = AnswerFormat("harmony", "harmony")
CALL = '<tool_call>{"name": "f", "arguments": {'


@pytest.mark.parametrize(
    ("form", "text", "place"),
    [
        (HERMES, "", Place.NEAR),
        (HERMES, "Hi", Place.APART),
        (HERMES, "Hi\n", Place.NEAR),
        (HERMES, "Hi\n <thi", Place.NEAR),
        (HERMES, "Hi <thi", Place.APART),
        (HERMES, "<think>", Place.OPENED),
        (HERMES, "<think>\n", Place.OPENED),
        (HERMES, "<think><think>", Place.OPENED),
        (HERMES, "<think> ", Place.WITHIN),
        (HERMES, "<think></th", Place.WITHIN),
        (HERMES, "<think>a\n", Place.WITHIN),
        (HERMES, "<think>a</think>", Place.NEAR),
        (HERMES, "<tool_call>", Place.NEAR),
        (HERMES, '<tool_call>{"name": ', Place.NEAR),
        (HERMES, CALL, Place.APART),
        (HERMES, CALL + "}}</tool_call>", Place.NEAR),
        (GIGACHAT, "Hi<|message_sep|>\n", Place.NEAR),
        (GRANITE, "<response>", Place.NEAR),
        (GRANITE, 'functools {"name":\n<think>', Place.WITHIN),
        (GRANITE, 'functools {"name":\n<think></think>', Place.NEAR),
        (GRANITE, 'functools {"name":\n<think></think><think>', Place.WITHIN),
        (GRANITE, 'functools {"name": <think>', Place.NEAR),
        (HARMONY, "", Place.APART),
        (HARMONY, "Hi <|chan", Place.NEAR),
        (HARMONY, "<|channel|>", Place.NEAR),
        (HARMONY, "<|channel|>final<|message|>", Place.APART),
        (HARMONY, "<|channel|>analysis<|message|>", Place.OPENED),
        (HARMONY, "<|channel|>analysis<|message|>a<|channel|>", Place.WITHIN),
    ],
)
def test_place_is_that_of_what_comes_next(form: AnswerFormat, text: str, place: Place) -> None:
    whole, split = AnswerParser(form, TOOLS), AnswerParser(form, TOOLS)

    whole.feed(text)
    for letter in text:
        split.feed(letter)

    assert (whole.place, split.place) == (place, place)


@pytest.mark.parametrize(
    ("tokens", "num_thought", "num_in_a_row"),
    [
        (["Hi"], 0, 0),
        (["<think>", "\n", "a", "</think>", "Hi"], 3, 0),
        (["<thi", "nk>\n", "a"], 1, 1),
        (["<think>a", "b"], 2, 1),
        (["<think>a</think>Hi\n<think>"], 1, 1),
        (["<think>", "</think>", "\n", "<think>", "</think>"], 2, 2),
        (["<think>", "</think>", CALL, "}}", "</tool_call>", "<think>"], 1, 1),
    ],
)
def test_tokens_of_thoughts_are_counted(
    tokens: list[str], num_thought: int, num_in_a_row: int
) -> None:
    counter = ThoughtCounter(HERMES, TOOLS)

    for token in tokens:
        counter.push(token.encode())

    assert (counter.num_thought, counter.num_in_a_row) == (num_thought, num_in_a_row)


def test_thought_that_the_prompt_began_is_one() -> None:
    counter = ThoughtCounter(HERMES, TOOLS, begun="<think>")

    assert counter.is_open
    assert not counter.may_open
    assert counter.num_in_a_row == 1


def test_character_may_be_cut_by_tokens() -> None:
    form = AnswerFormat("qwen3", "deepseek_v3")
    counter = ThoughtCounter(form, TOOLS)

    for byte in "é<think>ü\n<think>é</think>".encode():
        counter.push(bytes([byte]))

    assert not counter.is_open
    assert counter.num_thought == len("é</think>".encode())


@pytest.mark.parametrize(("form", "is_so"), [(HERMES, False), (HARMONY, True)])
def test_headers_open_thoughts_anywhere(form: AnswerFormat, *, is_so: bool) -> None:
    assert ThoughtCounter(form, TOOLS).opens_anywhere is is_so
