"""Say what a Messages stream looks like on the wire.

Source: Anthropic's documentation, "Streaming Messages". One block is open at a time: its start,
its deltas, its stop; a thought's signature comes right before its stop. Blocks count from 0.
"""

from typing import Any

import msgspec

from appliance.api.anthropic.block import wire_call_id
from appliance.api.anthropic.codec import (
    block_key,
    message_head,
    signature,
    stop_body,
    usage_body,
)
from appliance.api.errors import anthropic_error
from appliance.chat.event import (
    Delta,
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)

_json = msgspec.json.Encoder()

PING = b'event: ping\ndata: {"type":"ping"}\n\n'

_DELTA_HEAD = (
    b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
)
_TAIL = b"}}\n\n"
_DELTAS = {
    TextDelta: ("text_delta", "text"),
    ReasoningDelta: ("thinking_delta", "thinking"),
    ToolCallDelta: ("input_json_delta", "partial_json"),
}


class MessagesCodec:
    """Messages as a stream. One instance per request; a block's fixed text is made once.

    A call that its model breaks, or that is cut short, has begun to stream and cannot be taken
    back: its block is stopped as it stands, and the stop reason is `end_turn` or `max_tokens`, not
    `tool_use`. That is what Anthropic sends where `max_tokens` cuts a call; a whole answer leaves
    the block out.
    """

    def __init__(self, request_id: str, model: str, *, shows_thoughts: bool = True) -> None:
        """Send thoughts as text, or with their signature only."""
        self._id = request_id
        self._model = model
        self._shows_thoughts = shows_thoughts
        self._open: object = None
        self._index = -1
        self._head = b""
        self._thought: list[str] = []
        self._finished: Finished | None = None

    def heartbeat(self) -> bytes:
        """Return a ping, which may come anywhere."""
        return PING

    def opening(self, usage: Usage) -> bytes:
        """Return message_start, with what the prompt came to."""
        message = {
            **message_head(self._id, self._model),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_body(usage),
        }
        return _event("message_start", {"message": message})

    def events(self, events: list[GenerationEvent], choice: int = 0) -> bytes:
        """Return a delta an event, and the starts and stops of blocks between them."""
        parts = []
        for event in events:
            if type(event) is TextDelta and self._open is TextDelta:
                parts.append(self._head + _json.encode(event.text) + _TAIL)
            else:
                parts.append(self._rarer(event))
        return b"".join(parts)

    def ending(self, usage: Usage) -> bytes:
        """Return message_delta, with the stop reason and the whole usage, and message_stop."""
        assert self._finished is not None
        body = {"delta": stop_body(self._finished), "usage": usage_body(usage)}
        return _event("message_delta", body) + _event("message_stop", {})

    def error(self, error: BaseException) -> bytes:
        """Return the error event; nothing follows it."""
        return b"event: error\ndata: " + _json.encode(anthropic_error(error, self._id)) + b"\n\n"

    def _rarer(self, event: GenerationEvent) -> bytes:
        turn = b"" if block_key(event) == self._open else self._turn(event)
        if isinstance(event, Finished):
            self._finished = event
            return turn
        piece = event.arguments if isinstance(event, ToolCallDelta) else event.text
        if isinstance(event, ReasoningDelta) and not self._shows_thoughts:
            self._thought.append(piece)
            return turn
        return turn + self._head + _json.encode(piece) + _TAIL if piece else turn

    def _turn(self, event: GenerationEvent) -> bytes:
        """Stop the block that is open, and start the event's."""
        stop = b"" if self._open is None else self._stop()
        self._open = block_key(event)
        if isinstance(event, Finished):
            return stop
        self._index += 1
        self._head = self._delta_head(*_DELTAS[type(event)])
        start = {"index": self._index, "content_block": _first_block(event)}
        return stop + _event("content_block_start", start)

    def _stop(self) -> bytes:
        stop = _event("content_block_stop", {"index": self._index})
        if self._open is not ReasoningDelta:
            return stop
        text = signature("".join(self._thought), shows_thoughts=self._shows_thoughts)
        self._thought.clear()
        head = self._delta_head("signature_delta", "signature")
        return head + _json.encode(text) + _TAIL + stop

    def _delta_head(self, delta: str, field: str) -> bytes:
        return _DELTA_HEAD % (self._index, delta.encode(), field.encode())


def _event(name: str, body: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _json.encode({"type": name, **body}))


def _first_block(event: Delta) -> dict[str, Any]:
    """Return a block as it is before its first delta."""
    if isinstance(event, ToolCallDelta):
        call_id = wire_call_id(event.id or "")
        return {"type": "tool_use", "id": call_id, "name": event.name, "input": {}}
    if isinstance(event, ReasoningDelta):
        return {"type": "thinking", "thinking": "", "signature": ""}
    return {"type": "text", "text": ""}
