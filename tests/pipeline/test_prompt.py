"""A prompt is what its engine takes, and leaves room for the answer or is refused."""

import pytest

from appliance.chat.request import ChatRequest, Media, Message, ToolCall
from appliance.engine.wire import ScriptPrompt, TokenPrompt
from appliance.errors import ContextTooLong, InvalidRequest, MediaRefused
from appliance.manifest.spec import ModelSpec
from appliance.pipeline.prompt import Prompt, answer_tokens, check_served, script_prompt

SCRIPT = ModelSpec(name="s", source="scripted:s.yaml")
MODEL = ModelSpec(name="m", source="path:/m")
IMAGE = Media("image", "data:,", 0, "messages.0.content.1")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param((), ("", 0), id="none"),
        pytest.param(
            (Message("system", "be brief"), Message("user", "hi you"), Message("assistant", "yes")),
            ("hi you", 5),
            id="the last user's",
        ),
        pytest.param(
            (
                Message("user", "go"),
                Message("assistant", tool_calls=(ToolCall("1", "f", "{}"),)),
                Message("tool", "a result", tool_call_id="1"),
            ),
            ("a result", 3),
            id="a tool's result",
        ),
        pytest.param((Message("user"),), ("", 0), id="without text"),
    ],
)
def test_script_answers_to_the_last_user_or_tool(
    messages: tuple[Message, ...], expected: tuple[str, int]
) -> None:
    prompt = script_prompt(ChatRequest("s", messages))

    assert prompt == ScriptPrompt(*expected)


@pytest.mark.parametrize(
    ("given", "text", "words"), [("as it  stands", "as it  stands", 3), ((5, 67), "5 67", 2)]
)
def test_script_answers_to_a_prompt_without_messages(
    given: str | tuple[int, ...], text: str, words: int
) -> None:
    assert script_prompt(ChatRequest("s", prompt=given)) == ScriptPrompt(text, words)


@pytest.mark.parametrize(
    ("asked", "clamps", "expected"),
    [
        pytest.param(None, False, 40, id="as many as the context has room for"),
        pytest.param(30, False, 30, id="as many as asked for"),
        pytest.param(41, False, None, id="more than there is room for"),
        pytest.param(41, True, 40, id="more, which may be less"),
        pytest.param(900, True, 40, id="more than the server allows, which may be less"),
    ],
)
def test_answer_has_room(asked: int | None, clamps: bool, expected: int | None) -> None:
    request = ChatRequest("m", max_tokens=asked, clamps_max_tokens=clamps)
    prompt = Prompt(TokenPrompt([1] * 60))

    if expected is None:
        with pytest.raises(ContextTooLong) as failure:
            answer_tokens(request, prompt, 50, 100)
        assert (failure.value.prompt_tokens, failure.value.max_tokens) == (60, asked)
    else:
        assert answer_tokens(request, prompt, 50, 100) == expected


@pytest.mark.parametrize("clamps", [False, True])
def test_prompt_that_fills_the_context_is_refused(clamps: bool) -> None:
    request = ChatRequest("m", max_tokens=1, clamps_max_tokens=clamps)

    with pytest.raises(ContextTooLong) as failure:
        answer_tokens(request, Prompt(TokenPrompt([1] * 100)), 50, 100)

    assert (failure.value.limit_tokens, failure.value.max_tokens) == (100, 0)


def test_script_may_say_as_much_as_the_server_allows() -> None:
    prompt = Prompt(ScriptPrompt("hi", 1))

    most = [
        answer_tokens(ChatRequest("s", max_tokens=asked, clamps_max_tokens=True), prompt, 50, 10)
        for asked in (None, 20, 80)
    ]

    assert most == [50, 20, 50]


def test_model_refuses_what_it_cannot_honour_and_a_script_nothing() -> None:
    unserved = ChatRequest("m", unserved=("response_format", "n"))
    media = ChatRequest("m", (Message("user", "what is this?", media=(IMAGE,)),))

    with pytest.raises(InvalidRequest) as failure:
        check_served(unserved, MODEL)
    with pytest.raises(MediaRefused) as refusal:
        check_served(media, MODEL)

    assert failure.value.param == "response_format"
    assert refusal.value.place == "messages.0.content.1"
    check_served(unserved, SCRIPT)
    check_served(media, SCRIPT)
