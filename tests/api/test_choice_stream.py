"""A stream of choices adds up to the answer in one piece, however its events are cut and mixed."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.api.openai.chat.codec import chat_completion
from appliance.api.openai.chat.stream import ChatStreamCodec
from appliance.api.openai.choice import AnswerHead
from appliance.api.openai.completion.codec import completion
from appliance.api.openai.completion.stream import CompletionStreamCodec
from appliance.api.sse import EventCodec
from appliance.chat.event import (
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from appliance.errors import ModelNotReady

HEAD = AnswerHead("a", "m", 7)
USAGE = Usage(5, 2, 3, 1)

_text = st.text(min_size=1, max_size=6)
_tokens = st.lists(
    st.builds(TokenLogprob, st.binary(min_size=1, max_size=4), st.floats(-9, 0)), max_size=3
).map(tuple)
_pieces = st.builds(TextDelta, _text)
_logged = st.builds(TextDelta, st.text(max_size=6), _tokens)
_thoughts = st.builds(ReasoningDelta, _text)
_calls = st.lists(st.lists(_text, max_size=3), max_size=3).map(
    lambda calls: [
        event
        for index, pieces in enumerate(calls)
        for event in (
            ToolCallDelta(index, f"call_{index}", f"f{index}"),
            *(ToolCallDelta(index, arguments=piece) for piece in pieces),
        )
    ]
)
_end = st.sampled_from([[Finished("stop", USAGE)], [Finished("length", USAGE)]])


def _ended(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[GenerationEvent]]:
    return st.tuples(*parts, _end).map(lambda lists: [each for part in lists for each in part])


CHAT = st.lists(
    _ended(st.lists(_thoughts, max_size=2), st.lists(_pieces, max_size=3), _calls),
    min_size=1,
    max_size=3,
)
COMPLETION = st.lists(_ended(st.lists(_logged, max_size=4)), min_size=1, max_size=3)


def _chunks(codec: EventCodec, choices: list[list[GenerationEvent]]) -> list[Any]:
    """Stream the choices in turns, an event of each; return the chunks' only choices."""
    sent = codec.opening(USAGE)
    for turn in range(max(map(len, choices))):
        for index, events in enumerate(choices):
            sent += codec.events(events[turn : turn + 1], index)
    sent += codec.ending(USAGE)
    *blocks, done, rest = sent.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(block.removeprefix("data: "))["choices"][0] for block in blocks]


def _added_up(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """Add up a choice's deltas as the simplest of clients do."""
    message: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": []}
    for delta in deltas:
        message["content"] += delta.get("content", "")
        message["reasoning"] += delta.get("reasoning", "")
        assert delta.get("reasoning") == delta.get("reasoning_content")
        for call in delta.get("tool_calls", ()):
            if call["index"] == len(message["tool_calls"]):
                message["tool_calls"].append({"id": call["id"], **call["function"]})
            else:
                assert call.keys() == {"index", "function"}
                message["tool_calls"][-1]["arguments"] += call["function"]["arguments"]
    return message


@given(CHAT)
def test_chat_stream_adds_up_to_the_whole_answer(choices: list[list[GenerationEvent]]) -> None:
    answer = chat_completion(HEAD, choices, USAGE, has_logprobs=False)

    sent = _chunks(ChatStreamCodec(HEAD, num_choices=len(choices)), choices)

    for whole in answer["choices"]:
        chunks = [chunk for chunk in sent if chunk["index"] == whole["index"]]
        message = whole["message"]
        assert _added_up([chunk["delta"] for chunk in chunks]) == {
            "content": message["content"] or "",
            "reasoning": message.get("reasoning", ""),
            "tool_calls": [
                {"id": call["id"], **call["function"]} for call in message.get("tool_calls", ())
            ],
        }
        reasons = [chunk["finish_reason"] for chunk in chunks]
        assert reasons == [None] * (len(reasons) - 1) + [whole["finish_reason"]]


@given(COMPLETION)
def test_completion_stream_adds_up_to_the_whole_answer(
    choices: list[list[GenerationEvent]],
) -> None:
    echoes = ["echo", *[""] * (len(choices) - 1)]
    answer = completion(HEAD, choices, USAGE, echoes=echoes, has_logprobs=True)

    sent = _chunks(CompletionStreamCodec(HEAD, echoes=echoes), choices)

    for whole in msgspec.json.decode(msgspec.json.encode(answer))["choices"]:
        chunks = [chunk for chunk in sent if chunk["index"] == whole["index"]]
        logged = [chunk["logprobs"] for chunk in chunks if chunk["logprobs"]]
        assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
        for name, values in whole["logprobs"].items():
            assert [each for part in logged for each in part[name]] == values
        assert chunks[-1]["finish_reason"] == whole["finish_reason"]


@pytest.mark.parametrize("codec", [ChatStreamCodec(HEAD), CompletionStreamCodec(HEAD, echoes=[""])])
def test_error_event_is_these_bytes(codec: EventCodec) -> None:
    assert codec.heartbeat() == b": keep-alive\n\n"
    assert codec.error(ModelNotReady("m", "it is loading")) == (
        b'data: {"error":{"message":"Model \'m\' is not ready: it is loading.",'
        b'"type":"server_error","param":null,"code":"model_not_ready"}}\n\n'
    )
    assert b"secret" not in codec.error(RuntimeError("secret"))
