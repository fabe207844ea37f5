"""Translate between OpenAI's chat wire format and the appliance's own words. Pure."""

import re
import time
from itertools import chain
from typing import Any

import msgspec
from msgspec import UNSET

from appliance.api.errors import openai_error
from appliance.api.openai.wire import MAX_TOKEN_ID, NEUTRAL, Call, ChatBody, WireMessage
from appliance.chat.event import Finished, GenerationEvent, TextDelta, TokenLogprob, Usage
from appliance.chat.request import ChatRequest, Message, Sampling, ToolCall
from appliance.errors import InvalidRequest

_json = msgspec.json.Encoder()

# One spelling for each number, so that none comes twice.
_TOKEN_ID = re.compile("0|[1-9][0-9]{0,9}")
_MOST_BIAS = 100
_MOST_SHOWN = 40
_LEAST_LOGPROB = -9999.0


def to_chat_request(body: ChatBody) -> ChatRequest:
    """Return what the body asks for; raises InvalidRequest naming the field."""
    stop = body.stop
    limit = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    return ChatRequest(
        model=body.model,
        messages=tuple(_message(index, each) for index, each in enumerate(body.messages)),
        sampling=Sampling(
            temperature=body.temperature,
            top_p=body.top_p,
            top_k=None if body.top_k is None else max(0, body.top_k),
            min_p=body.min_p,
            repetition_penalty=body.repetition_penalty,
            frequency_penalty=body.frequency_penalty,
            presence_penalty=body.presence_penalty,
            logit_bias=_logit_bias(body.logit_bias or {}),
            seed=body.seed,
        ),
        max_tokens=limit,
        min_tokens=_min_tokens(body.min_tokens or 0, limit),
        stop=() if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        ignore_eos=bool(body.ignore_eos),
        logprobs=_num_logprobs(body),
        priority=body.priority,
        timeout_seconds=body.timeout,
        template_kwargs=body.chat_template_kwargs or {},
        unserved=unserved_fields(body),
    )


def unserved_fields(body: ChatBody) -> tuple[str, ...]:
    """Return the fields set to something that only a scripted engine accepts."""
    return tuple(
        name
        for name, neutral in NEUTRAL.items()
        if (value := getattr(body, name)) is not UNSET
        and value is not None
        and not any(_is_same(value, each) for each in neutral)
    )


def _is_same(value: object, neutral: object) -> bool:
    """Compare as JSON does: 0 and 0.0 are the same, 0 and false are not."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)


def _logit_bias(wishes: dict[str, Any]) -> dict[int, float]:
    return {_token_id(key): _bias(key, value) for key, value in wishes.items()}


def _token_id(key: str) -> int:
    if not _TOKEN_ID.fullmatch(key) or (number := int(key)) > MAX_TOKEN_ID:
        raise _bias_error(key, "the key should be a token id")
    return number


def _bias(key: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _bias_error(key, "should be a number")
    if not -_MOST_BIAS <= value <= _MOST_BIAS:
        raise _bias_error(key, f"should be from -{_MOST_BIAS} to {_MOST_BIAS}")
    return float(value)


def _bias_error(key: str, reason: str) -> InvalidRequest:
    place = f"logit_bias['{key[:_MOST_SHOWN]}']"
    return InvalidRequest(f"{place}: {reason}.", param=place)


def _min_tokens(least: int, most: int | None) -> int:
    if most is not None and least > most:
        raise InvalidRequest(
            f"min_tokens is {least}, more than the {most} that the answer may have at most.",
            param="min_tokens",
        )
    return least


def _num_logprobs(body: ChatBody) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise InvalidRequest("top_logprobs needs logprobs to be true.", param="top_logprobs")
    return None


def _message(index: int, message: WireMessage) -> Message:
    return Message(
        role=message.role,
        content=_content(index, message),
        name=message.name,
        tool_calls=tuple(_call(call) for call in message.tool_calls or ()),
        tool_call_id=message.tool_call_id,
    )


def _content(index: int, message: WireMessage) -> str | None:
    if message.content is None or isinstance(message.content, str):
        return message.content
    texts = []
    for number, part in enumerate(message.content):
        place = f"messages[{index}].content[{number}]"
        if part.type not in ("text", "input_text"):
            raise InvalidRequest(
                f"{place}: parts of type '{part.type}' are not supported.", param=place
            )
        if part.text is None:
            raise InvalidRequest(f"{place}.text is missing.", param=f"{place}.text")
        texts.append(part.text)
    return "\n".join(texts)


def _call(call: Call) -> ToolCall:
    arguments = call.function.arguments
    text = arguments if isinstance(arguments, str) else _json.encode(arguments).decode()
    return ToolCall(id=call.id, name=call.function.name, arguments=text)


def usage_body(usage: Usage) -> dict[str, Any]:
    """Return token counts in OpenAI's shape."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def logprobs_body(tokens: tuple[TokenLogprob, ...]) -> dict[str, Any]:
    """Return tokens in OpenAI's shape; `token` replaces what is no whole character."""
    return {
        "content": [
            _token_body(token) | {"top_logprobs": [_token_body(each) for each in token.top]}
            for token in tokens
        ],
        "refusal": None,
    }


def _token_body(token: TokenLogprob) -> dict[str, Any]:
    return {
        "token": token.token.decode(errors="replace"),
        "logprob": max(token.logprob, _LEAST_LOGPROB),
        "bytes": list(token.token),
    }


def completion_id(request_id: str) -> str:
    """Return the id that OpenAI's clients see."""
    return f"chatcmpl-{request_id}"


def chat_completion(
    request_id: str,
    model: str,
    events: list[GenerationEvent],
    *,
    has_logprobs: bool,
    created: int | None = None,
) -> dict[str, Any]:
    """Fold a whole generation into one answer; `model` is the name the caller asked for."""
    finished = events[-1]
    assert isinstance(finished, Finished)
    deltas = [event for event in events if isinstance(event, TextDelta)]
    text = "".join(delta.text for delta in deltas)
    tokens = tuple(chain.from_iterable(delta.logprobs or () for delta in deltas))
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": logprobs_body(tokens) if has_logprobs else None,
        "finish_reason": finished.reason,
    }
    return {
        "id": completion_id(request_id),
        "object": "chat.completion",
        "created": int(time.time()) if created is None else created,
        "model": model,
        "choices": [choice],
        "usage": usage_body(finished.usage),
    }


class ChatChunkCodec:
    """Chat Completions as a stream. One instance per request; the fixed text is made once."""

    heartbeat = b": keep-alive\n\n"

    def __init__(
        self, request_id: str, model: str, *, include_usage: bool, created: int | None = None
    ) -> None:
        now = int(time.time()) if created is None else created
        head = _json.encode(
            {
                "id": completion_id(request_id),
                "object": "chat.completion.chunk",
                "created": now,
                "model": model,
            }
        )
        self._head = b"data: " + head[:-1]
        self._include_usage = include_usage
        no_usage = b',"usage":null' if include_usage else b""
        self._text_head = self._head + b',"choices":[{"index":0,"delta":{"content":'
        self._tail = b',"finish_reason":null}]' + no_usage + b"}\n\n"
        self._text_tail = b'},"logprobs":null' + self._tail
        self._no_usage = no_usage

    def opening(self) -> bytes:
        """Return the chunk that names the role."""
        return (
            self._head
            + b',"choices":[{"index":0,"delta":{"role":"assistant","content":""},'
            + b'"logprobs":null'
            + self._tail
        )

    def events(self, events: list[GenerationEvent]) -> bytes:
        """Return one chunk an event; Finished brings its chunk, the usage if asked, and [DONE]."""
        head, tail = self._text_head, self._text_tail
        return b"".join(
            [
                head + _json.encode(event.text) + tail
                if type(event) is TextDelta and event.logprobs is None
                else self._rarer(event)
                for event in events
            ]
        )

    def error(self, error: BaseException) -> bytes:
        """Return the error event; nothing follows it."""
        return b"data: " + _json.encode(openai_error(error)) + b"\n\n"

    def _rarer(self, event: GenerationEvent) -> bytes:
        if isinstance(event, Finished):
            return self._ending(event)
        logprobs = _json.encode(logprobs_body(event.logprobs or ()))
        text = self._text_head + _json.encode(event.text)
        return text + b'},"logprobs":' + logprobs + self._tail

    def _ending(self, finished: Finished) -> bytes:
        reason = _json.encode(finished.reason)
        chunk = (
            self._head
            + b',"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":'
            + reason
            + b"}]"
            + self._no_usage
            + b"}\n\n"
        )
        if self._include_usage:
            usage = _json.encode(usage_body(finished.usage))
            chunk += self._head + b',"choices":[],"usage":' + usage + b"}\n\n"
        return chunk + b"data: [DONE]\n\n"
