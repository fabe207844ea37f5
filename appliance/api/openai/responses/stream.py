"""Stream one answer in the event grammar of Responses, and fold one that is sent in one piece.

Source: OpenAI's API reference, "Streaming events". Events are numbered from 0 without gaps. An
answer begins with `response.created` and ends with one of `response.completed`, `.incomplete` and
`.failed`; while it is silent, `response.in_progress` is said again, since some clients count only
events as a sign of life.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from appliance.api.openai.chat.codec import logprobs_body
from appliance.api.openai.responses.envelope import AnswerStatus, Envelope, ending_status
from appliance.api.openai.responses.output import Output, OutputItem
from appliance.chat.event import Finished, GenerationEvent, TextDelta, Usage

OnStatus = Callable[[AnswerStatus, bytes], None]
"""What hears of how an answer stands, with the response object as JSON."""

_json = msgspec.json.Encoder()


class ResponseStreamCodec:
    """Responses as a stream. One instance per request; `on_end` hears of the answer's one end."""

    def __init__(self, envelope: Envelope, output: Output, on_end: OnStatus) -> None:
        self._envelope = envelope
        self._output = output
        self._on_end = on_end
        self._number = 0
        self._running = b""
        self._item: OutputItem | None = None
        self._index = 0
        self._delta_head = self._delta_middle = b""
        self._status: AnswerStatus = "completed"

    def heartbeat(self) -> bytes:
        """Return an event that says that the answer goes on; the first says that it has begun."""
        if not self._running:
            return self._begin()
        return self._event("response.in_progress", {"response": msgspec.Raw(self._running)})

    def opening(self, usage: Usage) -> bytes:
        """Return the events that begin the answer, unless a heartbeat was one."""
        return b"" if self._running else self._begin()

    def events(self, events: list[GenerationEvent], choice: int) -> bytes:
        """Return one event a piece, and those round an item's pieces."""
        sent: list[bytes] = []
        for event in events:
            if isinstance(event, Finished):
                sent.append(self._finish(event))
                continue
            item = self._output.item_for(event)
            if item is not self._item:
                sent.append(self._turn_to(item))
            text = item.add(event)
            if type(event) is TextDelta and event.logprobs is not None:
                sent.append(self._text_with_logprobs(event))
            elif text:
                middle = self._delta_middle
                sent.append(
                    b"%b%d%b%b}\n\n" % (self._delta_head, self._number, middle, _json.encode(text))
                )
                self._number += 1
        return b"".join(sent)

    def ending(self, usage: Usage) -> bytes:
        """Return the event that ends the answer, which is whole in it."""
        output = self._output.bodies("incomplete" if self._status == "incomplete" else "completed")
        return self._end(self._status, self._envelope.response(self._status, output, usage))

    def error(self, error: BaseException) -> bytes:
        """Return the event of a failed answer, with what there is of it; nothing follows it."""
        status = ending_status(error)
        begun = self.opening(Usage())
        output = self._output.bodies("completed" if self._item is None else "incomplete")
        response = self._envelope.response(status, output, error=error)
        return begun + self._end(status, response, "failed")

    def _begin(self) -> bytes:
        self._running = _json.encode(self._envelope.response("in_progress", []))
        fields = {"response": msgspec.Raw(self._running)}
        return self._event("response.created", fields) + self._event("response.in_progress", fields)

    def _end(self, status: AnswerStatus, response: dict[str, Any], event: str = "") -> bytes:
        answer = _json.encode(response)
        self._on_end(status, answer)
        return self._event(f"response.{event or status}", {"response": msgspec.Raw(answer)})

    def _finish(self, finished: Finished) -> bytes:
        opened = b""
        if not self._output.items:
            opened = self._turn_to(self._output.item_for(TextDelta("")))
        if finished.reason == "length":
            self._status = "incomplete"
        return opened + self._leave()

    def _turn_to(self, item: OutputItem) -> bytes:
        left = self._leave()
        self._item, self._index = item, len(self._output.items) - 1
        events = [self._item_event("added", item, "in_progress")]
        events += [self._placed(kind, fields) for kind, fields in item.opening()]
        kind, fields = item.delta
        head = f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":'
        self._delta_head = head.encode()
        self._delta_middle = b"," + _json.encode(self._place() | fields)[1:-1] + b',"delta":'
        return left + b"".join(events)

    def _leave(self) -> bytes:
        item = self._item
        if item is None:
            return b""
        events = [self._placed(kind, fields) for kind, fields in item.closing()]
        status = "incomplete" if self._status == "incomplete" else "completed"
        events.append(self._item_event("done", item, status))
        self._item = None
        return b"".join(events)

    def _text_with_logprobs(self, event: TextDelta) -> bytes:
        tokens = logprobs_body(event.logprobs or ())["content"]
        kind = "response.output_text.delta"
        return self._placed(kind, {"content_index": 0, "delta": event.text, "logprobs": tokens})

    def _item_event(self, verb: str, item: OutputItem, status: Any) -> bytes:  # noqa: ANN401
        fields = {"output_index": self._index, "item": item.body(status)}
        return self._event(f"response.output_item.{verb}", fields)

    def _placed(self, kind: str, fields: dict[str, Any]) -> bytes:
        return self._event(kind, self._place() | fields)

    def _place(self) -> dict[str, Any]:
        assert self._item is not None
        return {"item_id": self._item.id, "output_index": self._index}

    def _event(self, kind: str, fields: dict[str, Any]) -> bytes:
        data = _json.encode({"type": kind, "sequence_number": self._number, **fields})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def fold_answer(
    envelope: Envelope, output: Output, events: list[GenerationEvent], usage: Usage
) -> tuple[AnswerStatus, dict[str, Any]]:
    """Return how a whole answer stands, and its response object."""
    finished = events[-1]
    assert isinstance(finished, Finished)
    output.fold(event for event in events if not isinstance(event, Finished))
    if finished.reason == "length":
        return "incomplete", envelope.response("incomplete", output.bodies("incomplete"), usage)
    return "completed", envelope.response("completed", output.bodies("completed"), usage)
