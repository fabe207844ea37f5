"""How calls and their results become such that a template can show them."""

import time

import pytest
from msgspec.structs import replace

from appliance.chat.normalise import normalise
from appliance.chat.request import Media, Message, ToolCall
from appliance.chat.traits import Spelling, Traits

ASK = Message("user", "a")
AGAIN = Message("user", "b")
SAY = Message("assistant", "y")


def call(*numbers: int, content: str | None = None, thought: str | None = None) -> Message:
    made = tuple(ToolCall(f"c{number}", f"f{number}", f'{{"n": {number}}}') for number in numbers)
    return Message("assistant", content, tool_calls=made, thought=thought)


def result(number: int) -> Message:
    return Message("tool", f"r{number}", tool_call_id=f"c{number}")


def brief(message: Message) -> str:
    """Return what a message has, as `assistant x (t) c1 c2`."""
    thought = f"({message.thought})" if message.thought else None
    made = (each.id for each in message.tool_calls)
    return " ".join(filter(None, (message.role, message.content, thought, *made)))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param((ASK, call(1, 2), result(2), result(1)),
                     ["user a", "assistant c1 c2", "tool r1", "tool r2"], id="as the calls"),
        pytest.param((ASK, result(1), call(1)), ["user a", "assistant c1", "tool r1"],
                     id="before its call"),
        pytest.param((ASK, call(1), AGAIN, result(1)),
                     ["user a", "assistant c1", "tool r1", "user b"], id="late"),
        pytest.param((ASK, result(7), AGAIN), ["user a", "user r7", "user b"], id="no call"),
        pytest.param((ASK, Message("tool", "r")), ["user a", "user r"], id="no id"),
        pytest.param((ASK, call(1), result(1), call(1), result(1)),
                     ["user a", "assistant c1", "tool r1", "assistant c1", "tool r1"],
                     id="an id again"),
        pytest.param((ASK, call(1), AGAIN), ["user a", "assistant c1", "user b"], id="no result"),
    ],
)  # fmt: skip
def test_results_follow_their_calls(messages: tuple[Message, ...], expected: list[str]) -> None:
    assert [brief(each) for each in normalise(messages, Traits())] == expected


def test_result_has_the_name_of_its_call_unless_it_has_one() -> None:
    named = Message("tool", "r", name="other", tool_call_id="c2")

    turns = normalise((ASK, call(1, 2), result(1), named), Traits())

    assert [each.name for each in turns[2:]] == ["f1", "other"]


@pytest.mark.parametrize(
    ("traits", "messages", "expected"),
    [
        pytest.param(Traits(parallel_calls=False),
                     (ASK, call(1, 2, content="x", thought="t"), result(1), result(2)),
                     ["user a", "assistant x (t) c1", "tool r1", "assistant c2", "tool r2"],
                     id="one call at a time"),
        pytest.param(Traits(text_beside_call=False),
                     (ASK, call(1, content="x", thought="t"), result(1)),
                     ["user a", "assistant x (t)", "assistant c1", "tool r1"],
                     id="text before the call"),
        pytest.param(Traits(text_beside_call=False, repeats=False),
                     (ASK, call(1), result(1), call(2, content="x"), result(2), SAY),
                     ["user a", "assistant c1", "tool r1", "assistant x", "user", "assistant c2",
                      "tool r2", "assistant y"], id="no answers in a row"),
        pytest.param(Traits(parallel_calls=False),
                     (ASK, call(1, 1), result(1), replace(result(1), content="again")),
                     ["user a", "assistant c1", "tool r1", "tool again", "assistant c1"],
                     id="one id twice"),
        pytest.param(Traits(thought_beside_call=False),
                     (ASK, call(1, content="x", thought="t"), result(1)),
                     ["user a", "assistant t\n\nx c1", "tool r1"], id="thought in the text"),
        pytest.param(Traits(question_after_result=False), (ASK, call(1), result(1), AGAIN),
                     ["user a", "assistant c1", "tool r1\n\nb"], id="question in the result"),
        pytest.param(Traits(results=False), (ASK, call(1), result(1)),
                     ["user a", "assistant c1", "user <tool_response>\nr1\n</tool_response>"],
                     id="results are questions"),
        pytest.param(Traits(calls=False), (ASK, call(1, content="x"), result(1)),
                     ["user a", 'assistant x\n<tool_call>\n{"name": "f1", "arguments": {"n": 1}}\n'
                      "</tool_call>", "tool r1"], id="calls are text"),
    ],
)  # fmt: skip
def test_what_the_template_cannot_show_beside_a_call_is_shown_elsewhere(
    traits: Traits, messages: tuple[Message, ...], expected: list[str]
) -> None:
    traits = replace(traits, spelling=Spelling(thought="thinking"))

    assert [brief(each) for each in normalise(messages, traits)] == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"b": 1,"a": 2}', '{"b": 1, "a": 2}'),
        (" ", "{}"),
        ("null", "{}"),
        ("not <json", '"not <json"'),
        ("[" * 10**5, f'"{"[" * 10**5}"'),
        ('{"a":' * 900 + "1" + "}" * 900, '{"a": ' * 900 + "1" + "}" * 900),
    ],
    ids=["object", "empty", "null", "no json", "deep", "deep object"],
)
def test_call_as_text_keeps_its_arguments(arguments: str, expected: str) -> None:
    call = Message("assistant", tool_calls=(ToolCall("c1", "f", arguments),))

    turns = normalise((ASK, call), Traits(calls=False))

    text = f'<tool_call>\n{{"name": "f", "arguments": {expected}}}\n</tool_call>'
    assert turns[1].content == text


def test_media_keep_their_place_where_text_comes_before_them() -> None:
    image = Media("image", "data:1", 1, "m.0")
    shown = replace(result(1), media=(image,))
    thought = replace(call(1, content="xy", thought="t"), media=(image,))

    turns = normalise((ASK, thought, shown), Traits(results=False, thought_beside_call=False))

    assert [(turn.content or "")[turn.media[0].at :] for turn in turns[1:]] == [
        "y",
        "1\n</tool_response>",
    ]


def test_many_calls_cost_no_more_than_their_number() -> None:
    numbers = range(20_000)
    turns = (ASK, call(*numbers), *map(result, reversed(numbers)))

    started = time.process_time()
    apart = normalise(turns, Traits(parallel_calls=False))

    assert time.process_time() - started < 3
    assert [brief(each) for each in apart[-2:]] == ["assistant c19999", "tool r19999"]
