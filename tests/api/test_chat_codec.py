"""How a chat body is read: every field honoured, or named among those that are not."""

from typing import Any

import msgspec
import pytest

from appliance.api.openai.chat.codec import to_chat_request
from appliance.api.openai.chat.wire import ChatBody
from appliance.api.openai.choice import usage_wanted
from appliance.api.openai.refusal import refused_fields
from appliance.chat.request import (
    ChatRequest,
    Media,
    Message,
    Sampling,
    SamplingParams,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
)
from appliance.chat.sampling import resolve_sampling
from appliance.errors import InvalidRequest

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "f"}}
REFUSED = refused_fields(ChatBody)
OPTIONAL = [
    field.name
    for field in msgspec.structs.fields(ChatBody)
    if field.name not in ("model", "messages")
]


def decode_body(**fields: object) -> ChatBody:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return msgspec.json.decode(msgspec.json.encode(body), type=ChatBody)


def request_of(**fields: object) -> ChatRequest:
    return to_chat_request(decode_body(**fields))


def read_message(**fields: object) -> Message:
    return request_of(messages=[fields]).messages[0]


@pytest.mark.parametrize("name", REFUSED)
def test_field_not_served_yet_is_named_unless_neutral(name: str) -> None:
    assert request_of(**{name: {"odd": [1]}}).unserved == (name,)
    for neutral in (None, *REFUSED[name]):
        assert request_of(**{name: neutral}) == request_of()


@pytest.mark.parametrize("name", OPTIONAL)
def test_null_is_as_if_left_out(name: str) -> None:
    assert request_of(**{name: None}) == request_of()


@pytest.mark.parametrize("value", [0, True, 1.0, "yes"])
def test_neutral_value_is_compared_as_json_does(value: object) -> None:
    assert request_of(store=value).unserved == ("store",)


def test_history_is_carried_over() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    bare = {"id": None, "function": {"name": "g", "arguments": None}}
    messages = [
        {
            "role": "developer",
            "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}],
        },
        {"role": "assistant", "content": None, "tool_calls": [call, bare]},
        {"role": "tool", "content": "18C", "tool_call_id": "c1", "name": "f"},
        {"role": "assistant", "refusal": "I must not."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "Nor that."}]},
    ]

    assert request_of(messages=messages).messages == (
        Message("developer", "a\nb"),
        Message(
            "assistant",
            None,
            tool_calls=(ToolCall("c1", "f", '{"a":1}'), ToolCall("", "g", "{}")),
        ),
        Message("tool", "18C", "f", tool_call_id="c1"),
        Message("assistant", "I must not."),
        Message("assistant", "Nor that."),
    )


@pytest.mark.parametrize(
    ("fields", "thought"),
    [
        ({"reasoning_content": "hm"}, "hm"),
        ({"reasoning": "hm"}, "hm"),
        ({"reasoning_content": "hm", "reasoning": "hm"}, "hm"),
        ({"reasoning_content": "", "reasoning": "hm"}, "hm"),
        ({"reasoning_content": None, "reasoning": None}, None),
    ],
)
def test_thought_is_read_under_both_names(fields: dict[str, Any], thought: str | None) -> None:
    assert read_message(role="assistant", content="yes", **fields).thought == thought


def test_media_stand_where_they_were_in_the_text() -> None:
    message = read_message(
        role="user",
        content=[
            {
                "type": "image_url",
                "image_url": {"url": "data:image/png;base64,AA", "detail": "low"},
            },
            {"type": "text", "text": "né"},
            {"type": "video_url", "video_url": "http://nas.local/film.mp4"},
            {"type": "text", "text": "two"},
            {"type": "input_audio", "input_audio": {"data": "BB", "format": "wav"}},
            {"type": "file", "file": {"file_data": "CC", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,DD"}},
        ],
    )

    place = "messages[0].content"
    assert message.content == "né\ntwo"
    assert message.media == (
        Media("image", "data:image/png;base64,AA", 0, f"{place}[0]"),
        Media("video", "http://nas.local/film.mp4", 2, f"{place}[2]"),
        Media("audio", "data:audio/wav;base64,BB", 6, f"{place}[4]"),
        Media("file", "data:application/octet-stream;base64,CC", 6, f"{place}[5]"),
        Media("file", "data:application/pdf;base64,DD", 6, f"{place}[6]"),
    )


def test_message_of_media_alone_has_no_text() -> None:
    part = {"type": "image_url", "image_url": {"url": "http://nas.local/a.png"}}

    assert read_message(role="user", content=[part]).content is None


def test_file_by_id_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_message(role="user", content=[{"type": "file", "file": {"file_id": "f-1"}}])

    assert refusal.value.param == "messages[0].content[0].file"


@pytest.mark.parametrize("name", ["function_call", "audio"])
def test_answer_of_another_kind_in_the_history_is_named(name: str) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", name: {"id": "a"}}]

    assert request_of(messages=messages).unserved == (f"messages[1].{name}",)


def test_tools_are_read() -> None:
    bare = {"function": {"name": "g", "description": "does g", "strict": False}}

    request = request_of(tools=[TOOL, bare], parallel_tool_calls=False)

    assert request.tools == (
        Tool("f", parameters={"type": "object"}),
        Tool("g", "does g", strict=False),
    )
    assert request.tool_choice == ToolChoice("auto")
    assert not request.allows_parallel_calls
    assert request.unserved == ()


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        ("none", ToolChoice("none")),
        ("auto", ToolChoice("auto")),
        ("required", ToolChoice("required")),
        (NAMED, ToolChoice("named", "f")),
    ],
)
def test_tool_choice_is_read(value: object, choice: ToolChoice) -> None:
    request = request_of(tools=[TOOL], tool_choice=value)

    assert (request.tool_choice, request.unserved) == (choice, ())


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_only_allowed_tools_are_offered(mode: str) -> None:
    other = {"type": "function", "function": {"name": "g", "strict": True}}
    allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "g"}}]}

    request = request_of(
        tools=[TOOL, other], tool_choice={"type": "allowed_tools", "allowed_tools": allowed}
    )

    assert request.tools == (Tool("g", strict=True),)
    assert request.tool_choice.mode == mode


@pytest.mark.parametrize("value", ["required", NAMED])
def test_tool_choice_without_its_tool_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        request_of(tool_choice=value)

    assert refusal.value.param == "tool_choice"


@pytest.mark.parametrize(
    ("fields", "thinking"),
    [
        ({}, Thinking()),
        ({"reasoning_effort": "low"}, Thinking(effort="low")),
        ({"enable_thinking": False}, Thinking(False, param="enable_thinking")),
        ({"enable_thinking": True, "reasoning_effort": "high"}, Thinking(True, "high")),
        ({"thinking": {"type": "disabled"}}, Thinking(False, param="thinking.type")),
        ({"thinking": {"type": "auto"}}, Thinking()),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 99}},
            Thinking(True, param="thinking.type", budget=99, budget_param="thinking.budget_tokens"),
        ),
        ({"thinking_token_budget": 0}, Thinking(budget=0, budget_param="thinking_token_budget")),
        ({"reasoning": {"effort": "none"}}, Thinking(effort="none", param="reasoning.effort")),
        ({"reasoning": {"enabled": False}}, Thinking(False, param="reasoning.enabled")),
        ({"reasoning": {"max_tokens": 8}}, Thinking(budget=8, budget_param="reasoning.max_tokens")),
        ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, Thinking(effort="high")),
    ],
)
def test_wishes_about_thoughts_are_read(fields: dict[str, object], thinking: Thinking) -> None:
    assert request_of(**fields).thinking == thinking


def test_limits_and_stops_are_read() -> None:
    request = request_of(max_tokens=5, max_completion_tokens=3, stop="x", top_k=-1, seed=-4)

    assert (request.max_tokens, request.stop) == (3, ("x",))
    assert (request.sampling.top_k, request.sampling.seed) == (0, -4)
    assert request_of(stop=["a", "", "b"]).stop == ("a", "b")


def test_sampling_fields_are_read() -> None:
    request = request_of(
        repetition_penalty=1.5,
        frequency_penalty=-2,
        presence_penalty=2,
        logit_bias={"0": 100, "2147483647": -0.5},
    )

    assert request.sampling == Sampling(
        repetition_penalty=1.5,
        frequency_penalty=-2.0,
        presence_penalty=2.0,
        logit_bias={0: 100.0, 2147483647: -0.5},
    )


def test_engine_fields_are_read() -> None:
    request = request_of(
        min_tokens=3,
        max_tokens=3,
        stop_token_ids=[5, 6],
        priority=-4,
        timeout=0.5,
        chat_template_kwargs={"a": 1},
    )

    assert (request.min_tokens, request.stop_token_ids) == (3, (5, 6))
    assert (request.priority, request.timeout_seconds) == (-4, 0.5)
    assert request.template_kwargs == {"a": 1}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"logprobs": False, "top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_logprobs_are_none_or_how_many_come_with_each(
    fields: dict[str, object], expected: int | None
) -> None:
    assert request_of(**fields).logprobs == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"min_tokens": 3, "max_tokens": 2}, "min_tokens"),
        ({"logit_bias": {"05": 1}}, "logit_bias['05']"),
        ({"logit_bias": {"5": "1"}}, "logit_bias['5']"),
        ({"logit_bias": {"5": 101}}, "logit_bias['5']"),
    ],
)
def test_wrong_value_is_named(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        request_of(**fields)

    assert refusal.value.param == param
    assert str(refusal.value).startswith(param)


def test_stream_options_need_a_stream() -> None:
    options = {"include_usage": True}

    assert usage_wanted(decode_body(stream=True, stream_options=options))
    assert not usage_wanted(decode_body(stream=True, stream_options={}))
    assert not usage_wanted(decode_body(stream=True))
    with pytest.raises(InvalidRequest) as refusal:
        usage_wanted(decode_body(stream_options=options))

    assert refusal.value.param == "stream_options"


@pytest.mark.parametrize(
    "fields",
    [
        {"frequency_penalty": 0, "presence_penalty": 0.0, "repetition_penalty": 1},
        {"logit_bias": {}, "stop_token_ids": [], "min_tokens": 0, "logprobs": False},
        {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "n": 1},
    ],
)
def test_neutral_value_asks_for_nothing(fields: dict[str, object]) -> None:
    request = request_of(**fields)

    sampling = resolve_sampling(request.sampling, Sampling(), {})
    assert sampling == SamplingParams()
    assert msgspec.structs.replace(request, sampling=Sampling()) == request_of()
