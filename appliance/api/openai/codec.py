"""Translate between OpenAI's chat wire format and the appliance's own words. Pure."""

import time
from typing import Any

import msgspec
from msgspec import UNSET

from appliance.api.errors import openai_error
from appliance.api.openai.wire import NEUTRAL, Call, ChatBody, WireMessage
from appliance.chat.event import Finished, GenerationEvent, TextDelta, Usage
from appliance.chat.request import ChatRequest, Message, Sampling, ToolCall
from appliance.errors import InvalidRequest

_json = msgspec.json.Encoder()


def to_chat_request(body: ChatBody) -> ChatRequest:
    """Return what the body asks for; raises InvalidRequest naming the field."""
    stop = body.stop
    limit = body.max_completion_tokens
    return ChatRequest(
        model=body.model,
        messages=tuple(_message(index, each) for index, each in enumerate(body.messages)),
        sampling=Sampling(
            temperature=body.temperature,
            top_p=body.top_p,
            top_k=None if body.top_k is None else max(0, body.top_k),
            min_p=body.min_p,
            seed=body.seed,
        ),
        max_tokens=body.max_tokens if limit is None else limit,
        stop=() if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
        ignore_eos=bool(body.ignore_eos),
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


def completion_id(request_id: str) -> str:
    """Return the id that OpenAI's clients see."""
    return f"chatcmpl-{request_id}"


def chat_completion(
    request_id: str, model: str, events: list[GenerationEvent], created: int | None = None
) -> dict[str, Any]:
    """Fold a whole generation into one answer; `model` is the name the caller asked for."""
    finished = events[-1]
    assert isinstance(finished, Finished)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
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
        self._text_tail = b'},"logprobs":null,"finish_reason":null}]' + no_usage + b"}\n\n"
        self._no_usage = no_usage

    def opening(self) -> bytes:
        """Return the chunk that names the role."""
        return (
            self._head
            + b',"choices":[{"index":0,"delta":{"role":"assistant","content":""},'
            + b'"logprobs":null,"finish_reason":null}]'
            + self._no_usage
            + b"}\n\n"
        )

    def events(self, events: list[GenerationEvent]) -> bytes:
        """Return one chunk an event; Finished brings its chunk, the usage if asked, and [DONE]."""
        head, tail = self._text_head, self._text_tail
        return b"".join(
            [
                head + _json.encode(event.text) + tail
                if type(event) is TextDelta
                else self._ending(event)
                for event in events
            ]
        )

    def error(self, error: BaseException) -> bytes:
        """Return the error event; nothing follows it."""
        return b"data: " + _json.encode(openai_error(error)) + b"\n\n"

    def _ending(self, finished: GenerationEvent) -> bytes:
        assert isinstance(finished, Finished)
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
