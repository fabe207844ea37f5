"""The exact bytes of a chat stream, and the folding of a whole answer."""

import msgspec
import pytest

from appliance.api.openai.codec import ChatChunkCodec, chat_completion, to_chat_request
from appliance.api.openai.wire import NEUTRAL, ChatBody
from appliance.chat.event import Finished, GenerationEvent, TextDelta, TokenLogprob, Usage
from appliance.chat.request import Message, Sampling, SamplingParams, ToolCall
from appliance.chat.sampling import resolve_sampling
from appliance.errors import InvalidRequest, ModelNotReady

EVENTS: list[GenerationEvent] = [
    TextDelta('say "hi"\n'),
    TextDelta("\u2028é👋"),
    Finished("length", Usage(5, 2, 3)),
]
HEAD = '{"id":"chatcmpl-r1","object":"chat.completion.chunk","created":7,"model":"m","choices":['


TOKENS = (
    TokenLogprob(b"a", -0.5, (TokenLogprob(b"a", -0.5), TokenLogprob(b'"', -1.25))),
    TokenLogprob("é".encode()[:1], -float("inf")),
)
LOGPROBS = (
    '{"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":['
    '{"token":"a","logprob":-0.5,"bytes":[97]},{"token":"\\"","logprob":-1.25,"bytes":[34]}]},'
    '{"token":"\ufffd","logprob":-9999.0,"bytes":[195],"top_logprobs":[]}],"refusal":null}'
)


def decode_body(**fields: object) -> ChatBody:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return msgspec.json.decode(msgspec.json.encode(body), type=ChatBody)


def chunk(delta: str, reason: str = "null", tail: str = "", logprobs: str = "null") -> str:
    choice = f'{{"index":0,"delta":{{{delta}}},"logprobs":{logprobs},"finish_reason":{reason}}}]'
    return f"data: {HEAD}{choice}{tail}}}\n\n"


def test_stream_is_these_bytes() -> None:
    codec = ChatChunkCodec("r1", "m", include_usage=False, created=7)

    sent = codec.opening() + codec.events(EVENTS)

    assert sent.decode() == (
        chunk('"role":"assistant","content":""')
        + chunk('"content":"say \\"hi\\"\\n"')
        + chunk('"content":"\u2028é👋"')
        + chunk("", '"length"')
        + "data: [DONE]\n\n"
    )


def test_stream_with_usage_is_these_bytes() -> None:
    codec = ChatChunkCodec("r1", "m", include_usage=True, created=7)

    sent = codec.opening() + codec.events([TextDelta("a"), EVENTS[-1]])

    none = ',"usage":null'
    usage = '{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,'
    usage += '"prompt_tokens_details":{"cached_tokens":3}}'
    assert sent.decode() == (
        chunk('"role":"assistant","content":""', tail=none)
        + chunk('"content":"a"', tail=none)
        + chunk("", '"length"', tail=none)
        + f'data: {HEAD}],"usage":{usage}}}\n\n'
        + "data: [DONE]\n\n"
    )


def test_stream_with_logprobs_is_these_bytes() -> None:
    codec = ChatChunkCodec("r1", "m", include_usage=False, created=7)

    sent = codec.events([TextDelta("aé", TOKENS), TextDelta("b", ()), TextDelta("c"), EVENTS[-1]])

    assert sent.decode() == (
        chunk('"content":"aé"', logprobs=LOGPROBS)
        + chunk('"content":"b"', logprobs='{"content":[],"refusal":null}')
        + chunk('"content":"c"')
        + chunk("", '"length"')
        + "data: [DONE]\n\n"
    )


def test_error_event_is_these_bytes() -> None:
    codec = ChatChunkCodec("r1", "m", include_usage=False)

    assert codec.error(ModelNotReady("m", "it is loading")) == (
        b'data: {"error":{"message":"Model \'m\' is not ready: it is loading.",'
        b'"type":"server_error","param":null,"code":"model_not_ready"}}\n\n'
    )
    assert b"secret" not in codec.error(RuntimeError("secret"))


def test_whole_answer_folds_the_same_events() -> None:
    answer = chat_completion("r1", "m", EVENTS, has_logprobs=False, created=7)

    assert answer["choices"][0]["message"]["content"] == 'say "hi"\n\u2028é👋'
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == 7


def test_whole_answer_folds_the_logprobs() -> None:
    first, second = TextDelta("a", TOKENS[:1]), TextDelta("", TOKENS[1:])

    asked = chat_completion("r1", "m", [first, second, EVENTS[-1]], has_logprobs=True, created=7)
    empty = chat_completion("r1", "m", EVENTS[-1:], has_logprobs=True)
    unasked = chat_completion("r1", "m", EVENTS, has_logprobs=False)

    assert msgspec.json.encode(asked["choices"][0]["logprobs"]).decode() == LOGPROBS
    assert empty["choices"][0]["logprobs"] == {"content": [], "refusal": None}
    assert unasked["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("name", NEUTRAL)
def test_field_not_served_yet_is_named_unless_neutral(name: str) -> None:
    set_to = to_chat_request(decode_body(**{name: {"odd": [1]}}))
    absent = to_chat_request(decode_body(**{name: None}))

    assert set_to.unserved == (name,)
    assert absent.unserved == ()
    for neutral in NEUTRAL[name]:
        assert to_chat_request(decode_body(**{name: neutral})).unserved == ()


def test_history_is_carried_over() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    messages = [
        {
            "role": "developer",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "18C", "tool_call_id": "c1", "name": "f"},
    ]

    request = to_chat_request(decode_body(messages=messages))

    assert request.messages == (
        Message("developer", "a\nb"),
        Message("assistant", None, tool_calls=(ToolCall("c1", "f", '{"a":1}'),)),
        Message("tool", "18C", "f", tool_call_id="c1"),
    )


def test_limits_and_stops_are_read() -> None:
    request = to_chat_request(
        decode_body(max_tokens=5, max_completion_tokens=3, stop="x", top_k=-1, seed=-4)
    )

    assert (request.max_tokens, request.stop) == (3, ("x",))
    assert (request.sampling.top_k, request.sampling.seed) == (0, -4)
    assert to_chat_request(decode_body(stop=["a", "b"])).stop == ("a", "b")


def test_sampling_fields_are_read() -> None:
    request = to_chat_request(
        decode_body(
            repetition_penalty=1.5,
            frequency_penalty=-2,
            presence_penalty=2,
            logit_bias={"0": 100, "2147483647": -0.5},
        )
    )

    assert request.sampling == Sampling(
        repetition_penalty=1.5,
        frequency_penalty=-2.0,
        presence_penalty=2.0,
        logit_bias={0: 100.0, 2147483647: -0.5},
    )


def test_engine_fields_are_read() -> None:
    request = to_chat_request(
        decode_body(min_tokens=3, max_tokens=3, stop_token_ids=[5, 6], priority=-4, timeout=0.5)
    )

    assert (request.min_tokens, request.stop_token_ids) == (3, (5, 6))
    assert (request.priority, request.timeout_seconds) == (-4, 0.5)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"logprobs": None, "top_logprobs": None}, None),
        ({"logprobs": False, "top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_logprobs_are_none_or_how_many_come_with_each(
    fields: dict[str, object], expected: int | None
) -> None:
    assert to_chat_request(decode_body(**fields)).logprobs == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"frequency_penalty": 0, "presence_penalty": 0.0, "repetition_penalty": 1},
        {"logit_bias": {}, "stop_token_ids": [], "min_tokens": 0, "logprobs": False},
        dict.fromkeys(("logit_bias", "stop_token_ids", "min_tokens", "priority", "timeout")),
    ],
)
def test_neutral_value_asks_for_nothing(fields: dict[str, object]) -> None:
    request = to_chat_request(decode_body(**fields))

    sampling = resolve_sampling(request.sampling, Sampling(), {})
    assert sampling == SamplingParams()
    assert msgspec.structs.replace(request, sampling=Sampling()) == to_chat_request(decode_body())


def test_part_that_is_not_text_is_refused_by_its_place() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}]

    with pytest.raises(InvalidRequest) as refusal:
        to_chat_request(decode_body(messages=[{"role": "user", "content": parts}]))

    assert refusal.value.param == "messages[0].content[1]"
