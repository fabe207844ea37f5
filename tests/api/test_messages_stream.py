"""The exact bytes of a Messages stream, and the folding of a whole answer."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from appliance.api.anthropic.codec import message_body, stop_body
from appliance.api.anthropic.stream import MessagesCodec
from appliance.chat.event import (
    Delta,
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from appliance.chat.seal import seal, unseal
from appliance.errors import ContextTooLong, ModelNotReady, QueueFull

USAGE = Usage(10, 5, 4, 2)
EVENTS: list[GenerationEvent] = [
    ReasoningDelta("h"),
    ReasoningDelta("m"),
    TextDelta('say "hi"\n'),
    TextDelta("\u2028é👋"),
    ToolCallDelta(0, "call_a1", "f"),
    ToolCallDelta(0, arguments='{"a":'),
    ToolCallDelta(0, arguments="1}"),
    Finished("tool_calls", USAGE),
]
WIRE_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def stream(events: list[GenerationEvent], *, shows_thoughts: bool = True) -> str:
    codec = MessagesCodec("r1", "m", shows_thoughts=shows_thoughts)
    sent = codec.opening(Usage(10, 0, 4)) + codec.events(events) + codec.ending(USAGE)
    return sent.decode()


def parse(sent: str) -> list[dict[str, Any]]:
    """Read a stream strictly: the official types must accept each event."""
    events = []
    for block in sent.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        body = json.loads(data.removeprefix("data: "))
        assert name == f"event: {body['type']}"
        WIRE_EVENT.validate_python(body, strict=True)
        events.append(body)
    return events


def fold(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Put a stream together as clients do, checking that one block is open at a time."""
    start, *middle, end, stop = events
    assert (start["type"], end["type"], stop["type"]) == (
        "message_start",
        "message_delta",
        "message_stop",
    )
    blocks: list[dict[str, Any]] = []
    for event, following in pairwise([*middle, end]):
        assert event["index"] == len(blocks) - (event["type"] != "content_block_start")
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "input": ""})
            assert following["type"] != "content_block_start"
        elif event["type"] == "content_block_delta":
            assert following["type"] in ("content_block_delta", "content_block_stop")
            add_delta(blocks[-1], event["delta"])
        else:
            assert following["type"] in ("content_block_start", "message_delta")
    return {**start["message"], "content": [whole(block) for block in blocks], **end["delta"]} | {
        "usage": end["usage"]
    }


def add_delta(block: dict[str, Any], delta: dict[str, str]) -> None:
    kind = delta["type"].removesuffix("_delta")
    assert block["type"] == {"signature": "thinking", "input_json": "tool_use"}.get(kind, kind)
    field = "partial_json" if kind == "input_json" else kind
    block["input" if kind == "input_json" else kind] += delta[field]


def whole(block: dict[str, Any]) -> dict[str, Any]:
    arguments = block.pop("input")
    return {**block, "input": json.loads(arguments)} if block["type"] == "tool_use" else block


def whole_answer(events: list[GenerationEvent], *, shows_thoughts: bool = True) -> Any:  # noqa: ANN401
    """Return the answer in one piece, as a client reads it."""
    body = message_body("r1", "m", events, shows_thoughts=shows_thoughts)
    return json.loads(msgspec.json.encode(body))


def test_whole_answer_is_of_the_sdks_type() -> None:
    Message.model_validate(whole_answer(EVENTS), strict=True)


def test_omitted_thought_travels_in_its_signature() -> None:
    started, signed, stopped = parse(stream(EVENTS, shows_thoughts=False))[1:4]
    answer = whole_answer(EVENTS, shows_thoughts=False)

    assert started["content_block"]["type"] == "thinking"
    assert signed["delta"] == {"type": "signature_delta", "signature": seal("hm")}
    assert stopped["type"] == "content_block_stop"
    assert answer["content"][0] == {"type": "thinking", "thinking": "", "signature": seal("hm")}


def test_every_thought_has_its_own_signature() -> None:
    events: list[GenerationEvent] = [ReasoningDelta("a")]
    events += [TextDelta("-"), ReasoningDelta("b"), Finished("stop", USAGE)]

    content = fold(parse(stream(events, shows_thoughts=False)))["content"]

    assert [unseal(block["signature"]) for block in content if "signature" in block] == ["a", "b"]


def test_empty_answer_has_no_block() -> None:
    events: list[GenerationEvent] = [Finished("stop", USAGE)]

    start, delta, stop = parse(stream(events))

    assert start["message"]["usage"]["output_tokens"] == 0
    assert delta["usage"]["output_tokens"] == 5
    assert stop == {"type": "message_stop"}
    assert whole_answer(events)["content"] == []


@pytest.mark.parametrize(
    ("finished", "reason"),
    [
        (Finished("stop", USAGE), ("end_turn", None)),
        (Finished("stop", USAGE, stop="END"), ("stop_sequence", "END")),
        (Finished("length", USAGE), ("max_tokens", None)),
        (Finished("tool_calls", USAGE), ("tool_use", None)),
    ],
)
def test_stop_reason_is_mapped(finished: Finished, reason: tuple[str, str | None]) -> None:
    body = stop_body(finished)

    assert (body["stop_reason"], body["stop_sequence"]) == reason


@pytest.mark.parametrize("arguments", ['{"a":', '{"a" 1}', "[1]", ""])
def test_broken_call_is_no_reason_to_use_a_tool(arguments: str) -> None:
    call = [ToolCallDelta(0, "call_1", "f"), ToolCallDelta(0, arguments=arguments)]
    events: list[GenerationEvent] = [TextDelta("a"), *call, Finished("length", USAGE)]

    answer = whole_answer(events)
    *_, stopped, delta, _ = parse(stream(events))

    assert answer["content"] == [{"type": "text", "text": "a"}]
    assert answer["stop_reason"] == delta["delta"]["stop_reason"] == "max_tokens"
    assert stopped == {"type": "content_block_stop", "index": 1}


def test_arguments_are_those_that_the_model_wrote() -> None:
    arguments = '{"a": 1e999, "b": 1.50, "c": 12345678901234567890123}'
    call = [ToolCallDelta(0, "call_1", "f"), ToolCallDelta(0, arguments=arguments)]

    body = message_body("r1", "m", [*call, Finished("tool_calls", USAGE)], shows_thoughts=True)

    assert f'"input":{arguments}'.encode() in msgspec.json.encode(body)


def test_ping_is_these_bytes() -> None:
    assert MessagesCodec("r1", "m").heartbeat() == b'event: ping\ndata: {"type":"ping"}\n\n'


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ModelNotReady("m", "it is loading"), "overloaded_error", "Model 'm' is not ready"),
        (QueueFull("m", 3), "rate_limit_error", "The queue of model"),
        (
            ContextTooLong(limit_tokens=100, prompt_tokens=120),
            "invalid_request_error",
            "prompt is too long: 120 tokens > 100 maximum",
        ),
        (RuntimeError("secret"), "api_error", "Internal server error."),
    ],
)
def test_late_error_is_an_event(error: Exception, kind: str, message: str) -> None:
    sent = MessagesCodec("r1", "m").error(error).decode()

    name, data = sent.removesuffix("\n\n").split("\n")
    body = json.loads(data.removeprefix("data: "))
    assert name == "event: error"
    assert (body["type"], body["request_id"], body["error"]["type"]) == ("error", "r1", kind)
    assert body["error"]["message"].startswith(message)
    assert "secret" not in sent


def calls(number: int) -> st.SearchStrategy[list[Delta]]:
    arguments = st.dictionaries(
        st.text(max_size=3), st.integers() | st.text(max_size=9), max_size=2
    )
    return arguments.map(lambda fields: call_deltas(number, msgspec.json.encode(fields).decode()))


def call_deltas(number: int, arguments: str) -> list[Delta]:
    pieces: list[Delta] = [ToolCallDelta(number, arguments=each) for each in arguments]
    return [ToolCallDelta(number, f"call_{number}", "f"), *pieces]


SAID = st.lists(
    st.text(min_size=1, max_size=5).map(TextDelta)
    | st.text(min_size=1, max_size=5).map(ReasoningDelta),
    max_size=5,
)


@given(SAID, calls(0), SAID, calls(1), st.booleans())
def test_stream_and_whole_answer_agree(
    before: list[Delta], call: list[Delta], between: list[Delta], last: list[Delta], shows: bool
) -> None:
    events = [*before, *call, *between, *last, Finished("tool_calls", USAGE)]

    answer = whole_answer(events, shows_thoughts=shows)

    assert fold(parse(stream(events, shows_thoughts=shows))) == answer
    Message.model_validate(answer, strict=True)
