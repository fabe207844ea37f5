"""The event grammar of Responses: in order, numbered, ended once, whatever the model says."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.event import (
    Delta,
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from appliance.chat.seal import unseal
from appliance.errors import (
    ApplianceError,
    ContextTooLong,
    Draining,
    InvalidRequest,
    QueueFull,
    RequestCancelled,
    StepFailed,
)
from tests.api.responses import folded, read_strictly, stream_codec, streamed, validated
from tests.examples import examples

USAGE = Usage(5, 3, 2, 1)
STOP = Finished("stop", USAGE)
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}


@st.composite
def answers(draw: st.DrawFn) -> list[GenerationEvent]:
    """Draw an answer as the parser may yield it."""
    pieces = st.text(min_size=1, max_size=5)
    events: list[Delta] = []
    num_calls = 0
    for kind in draw(st.lists(st.sampled_from(["text", "thought", "call"]), max_size=6)):
        texts = draw(st.lists(pieces, min_size=1, max_size=4))
        if kind == "call":
            events.append(ToolCallDelta(num_calls, f"call_{num_calls}", "f"))
            events += [ToolCallDelta(num_calls, arguments=text) for text in texts]
            num_calls += 1
        else:
            events += [TextDelta(t) if kind == "text" else ReasoningDelta(t) for t in texts]
    reason = draw(st.sampled_from(["stop", "length"]))
    return [*events, Finished(reason, USAGE)]  # type: ignore[arg-type]


@settings(max_examples=examples(50), deadline=None)
@given(answers(), st.booleans())
def test_stream_adds_up_to_the_whole_answer(
    events: list[GenerationEvent], is_summary: bool
) -> None:
    fields: dict[str, Any] = {"reasoning": {"summary": "auto"}} if is_summary else {}

    told = streamed(events, **fields)

    assert told[-1]["response"] == folded(events, **fields)
    assert accumulated(told) == told[-1]["response"]["output"]


@settings(max_examples=examples(50), deadline=None)
@given(answers())
def test_items_begin_and_end_once_in_their_order(events: list[GenerationEvent]) -> None:
    told = streamed(events)

    kinds = [event["type"] for event in told]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] in ("response.completed", "response.incomplete")
    bounds = [
        (event["output_index"], event["item"]["id"], event["type"].rpartition(".")[2])
        for event in told
        if event["type"].startswith("response.output_item.")
    ]
    ids = [item["id"] for item in told[-1]["response"]["output"]]
    expected = [(i, each, verb) for i, each in enumerate(ids) for verb in ("added", "done")]
    assert bounds == expected


def accumulated(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items as their `done` events tell them, whose deltas must add up to them."""
    items: list[dict[str, Any]] = []
    text = ""
    for event in told:
        kind = event["type"]
        if kind == "response.output_item.added":
            text = ""
        elif kind.endswith(".delta"):
            text += event["delta"]
        elif kind.endswith((".arguments.done", "_text.done")) or "arguments.done" in kind:
            assert text == event.get("text", event.get("arguments"))
        elif kind == "response.output_item.done":
            items.append(event["item"])
    return items


def test_heartbeats_begin_the_answer_and_go_on_numbering() -> None:
    codec = stream_codec()

    sent = codec.heartbeat() + codec.heartbeat() + codec.opening(USAGE)
    sent += codec.events([TextDelta("a")], 0) + codec.heartbeat()
    sent += codec.events([STOP], 0) + codec.ending(USAGE)

    kinds = [event["type"].removeprefix("response.") for event in read_strictly(sent)]
    assert kinds[:3] == ["created", "in_progress", "in_progress"]
    assert kinds[3:7] == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "in_progress",
    ]


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (StepFailed("It broke."), "server_error", "failed"),
        (QueueFull("m", 3), "rate_limit_exceeded", "failed"),
        (InvalidRequest("No."), "invalid_prompt", "failed"),
        (Draining(), "server_error", "failed"),
        (RequestCancelled("r1"), "server_error", "cancelled"),
    ],
)
@pytest.mark.parametrize("is_begun", [False, True])
def test_failure_is_the_last_event(
    error: ApplianceError, code: str, status: str, is_begun: bool
) -> None:
    ends: list[tuple[str, bytes]] = []
    codec = stream_codec(ends)

    sent = codec.opening(USAGE) + codec.events([TextDelta("half")], 0) if is_begun else b""
    told = read_strictly(sent + codec.error(error))

    assert told[0]["type"] == "response.created"
    assert told[-1]["type"] == "response.failed"
    answer = validated(told[-1]["response"])
    assert (answer["status"], answer["error"]) == (status, {"code": code, "message": str(error)})
    assert [item["status"] for item in answer["output"]] == ["incomplete"] * is_begun
    assert [(each, json.loads(raw)) for each, raw in ends] == [(status, answer)]


def test_foreign_failure_says_nothing_of_its_cause() -> None:
    assert b"secret" not in stream_codec().error(RuntimeError("secret"))


def test_late_overflow_has_the_code_that_agents_make_room_at() -> None:
    error = ContextTooLong(limit_tokens=100, prompt_tokens=200)

    sent = stream_codec().error(error)

    assert b'"code":"context_length_exceeded","message":"' in sent
    assert b"100" in sent and b"200" in sent


def test_thought_is_sealed_only_when_asked_for() -> None:
    events: list[GenerationEvent] = [ReasoningDelta("I "), ReasoningDelta("see"), STOP]

    plain = folded(events)["output"][0]
    sealed = folded(events, include=["reasoning.encrypted_content"])["output"][0]

    assert "encrypted_content" not in plain
    assert unseal(sealed["encrypted_content"]) == "I see"
    assert sealed["content"] == plain["content"]


def test_end_is_told_once_with_what_is_sent() -> None:
    ends: list[tuple[str, bytes]] = []
    codec = stream_codec(ends)

    codec.opening(USAGE)
    codec.events([TextDelta("a"), STOP], 0)
    told = codec.ending(USAGE)

    (status, raw) = ends[0]
    assert (len(ends), status) == (1, "completed")
    assert raw in told


@pytest.mark.parametrize(
    ("arguments", "status"),
    [('{"a": 1}', "completed"), ('{"a": oh}', "incomplete"), ("", "incomplete")],
)
def test_call_that_its_model_broke_is_incomplete(arguments: str, status: str) -> None:
    begun, more = ToolCallDelta(0, "call_1", "f"), ToolCallDelta(0, arguments=arguments)
    events: list[GenerationEvent] = [begun, more, STOP]

    (item,) = folded(events)["output"]

    assert item["status"] == status


def test_call_into_a_namespace_says_which() -> None:
    tools = [{"type": "namespace", "name": "crm", "description": "", "tools": [FUNCTION]}]
    events: list[GenerationEvent] = [ToolCallDelta(0, "call_0", "crm__f"), STOP]

    call = folded(events, tools=tools)["output"][0]
    told = streamed(events, tools=tools)

    assert (call["namespace"], call["name"]) == ("crm", "f")
    done = [each for each in told if each["type"].endswith("arguments.done")]
    assert [each["name"] for each in done] == ["f"]
