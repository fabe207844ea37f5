"""Make what the tests of Responses share: bodies, envelopes, answers, strictly read events."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from appliance.api.openai.responses.codec import (
    History,
    given_items,
    seals_thoughts,
    shows_summary,
    to_chat_request,
)
from appliance.api.openai.responses.envelope import Envelope
from appliance.api.openai.responses.output import Output, ThoughtStyle
from appliance.api.openai.responses.stream import ResponseStreamCodec, fold_answer
from appliance.api.openai.responses.tool import read_tools
from appliance.api.openai.responses.wire import Item, ResponsesBody
from appliance.chat.event import Finished, GenerationEvent
from appliance.chat.request import ChatRequest

REQUEST_ID = "0123456789abcdef0123456789abcdef"

_events: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


def decode_body(**fields: object) -> ResponsesBody:
    body = {"model": "m", "input": "hi", **fields}
    return msgspec.json.decode(msgspec.json.encode(body), type=ResponsesBody)


def chat_request(earlier: Iterable[Item] = (), **fields: object) -> ChatRequest:
    body = decode_body(**fields)
    history = History(list(earlier), given_items(body))
    return to_chat_request(body, history, read_tools(body))


def parts_of(body: ResponsesBody) -> tuple[Envelope, Output]:
    style = ThoughtStyle(is_summary=shows_summary(body), is_sealed=seals_thoughts(body))
    offer = read_tools(body)
    output = Output(REQUEST_ID, style, offer.origins)
    return Envelope(body, offer, REQUEST_ID, lambda: 7.5), output


def stream_codec(
    ends: list[tuple[str, bytes]] | None = None, /, **fields: object
) -> ResponseStreamCodec:
    kept = [] if ends is None else ends
    return ResponseStreamCodec(
        *parts_of(decode_body(**fields)), lambda status, answer: kept.append((status, answer))
    )


def streamed(events: list[GenerationEvent], **fields: object) -> list[dict[str, Any]]:
    """Return the events of a whole stream, each as the official SDK reads it."""
    finished = events[-1]
    assert isinstance(finished, Finished)
    codec = stream_codec(**fields)
    sent = codec.opening(finished.usage) + codec.events(events, 0) + codec.ending(finished.usage)
    return read_strictly(sent)


def folded(events: list[GenerationEvent], **fields: object) -> dict[str, Any]:
    """Return a whole answer, as the official SDK reads it."""
    finished = events[-1]
    assert isinstance(finished, Finished)
    _, answer = fold_answer(*parts_of(decode_body(**fields)), events, finished.usage)
    return validated(answer)


def validated(answer: dict[str, Any]) -> dict[str, Any]:
    Response.model_validate(answer, strict=True)
    return answer


def read_strictly(sent: bytes) -> list[dict[str, Any]]:
    """Parse a stream as its grammar is: named events, numbered without gaps."""
    assert sent.endswith(b"\n\n")
    read = []
    for number, block in enumerate(sent.decode().removesuffix("\n\n").split("\n\n")):
        head, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert head == f"event: {event['type']}"
        assert event["sequence_number"] == number
        _events.validate_python(event, strict=True)
        read.append(event)
    return read
