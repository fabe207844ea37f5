"""Grow the items of one answer from its events, and say how each of them is told. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from appliance.api.openai.chat.codec import logprobs_body
from appliance.api.openai.responses.listing import item_id
from appliance.api.openai.responses.wire import Item
from appliance.chat.event import Delta, ReasoningDelta, TextDelta, TokenLogprob, ToolCallDelta
from appliance.chat.seal import seal
from appliance.parsing.argument import is_object

Status = Literal["in_progress", "completed", "incomplete"]
Told = tuple[str, dict[str, Any]]
"""An event: its type, and its fields beside those that place it."""


class OutputItem(Protocol):
    """One item as it grows; its events are those between its `added` and `done`."""

    id: str
    delta: Told
    """The event of a piece, without the piece."""

    def takes(self, event: Delta) -> bool:
        """Say whether an event is of this item."""

    def add(self, event: Any) -> str:  # noqa: ANN401 - those it takes
        """Take an event and return the text that it brings."""

    def body(self, status: Status) -> Item:
        """Return the item as it is now; one in progress is as its first event tells it."""

    def opening(self) -> list[Told]:
        """Return the events before the first piece."""

    def closing(self) -> list[Told]:
        """Return the events after the last piece."""


class MessageOutput:
    """A text."""

    delta: Told = ("response.output_text.delta", {"content_index": 0, "logprobs": []})

    def __init__(self, new_id: str) -> None:
        self.id = new_id
        self._pieces: list[str] = []
        self._tokens: list[TokenLogprob] = []

    def takes(self, event: Delta) -> bool:
        """See OutputItem."""
        return type(event) is TextDelta

    def add(self, event: TextDelta) -> str:
        """See OutputItem."""
        self._pieces.append(event.text)
        if event.logprobs:
            self._tokens += event.logprobs
        return event.text

    def body(self, status: Status) -> Item:
        """See OutputItem."""
        content = [] if status == "in_progress" else [self._part()]
        head = {"id": self.id, "type": "message", "status": status}
        return head | {"role": "assistant", "content": content}

    def opening(self) -> list[Told]:
        """See OutputItem."""
        return [("response.content_part.added", {"content_index": 0, "part": self._part()})]

    def closing(self) -> list[Told]:
        """See OutputItem."""
        part = self._part()
        done = {"content_index": 0, "text": part["text"], "logprobs": part["logprobs"]}
        return [
            ("response.output_text.done", done),
            ("response.content_part.done", {"content_index": 0, "part": part}),
        ]

    def _part(self) -> Item:
        return {
            "type": "output_text",
            "text": "".join(self._pieces),
            "annotations": [],
            "logprobs": logprobs_body(tuple(self._tokens))["content"],
        }


class ReasoningOutput:
    """A thought, as it is or, where summaries are wanted, in their place.

    No model here sums its thoughts up; the whole thought is the most detailed summary there is.
    """

    def __init__(self, new_id: str, *, is_summary: bool, is_sealed: bool) -> None:
        self.id = new_id
        self._is_summary = is_summary
        self._is_sealed = is_sealed
        self._pieces: list[str] = []
        kind = "reasoning_summary_text" if is_summary else "reasoning_text"
        self._place = {"summary_index" if is_summary else "content_index": 0}
        self.delta: Told = (f"response.{kind}.delta", self._place)
        self._done = f"response.{kind}.done"
        self._part_event = "reasoning_summary_part" if is_summary else "content_part"

    def takes(self, event: Delta) -> bool:
        """See OutputItem."""
        return type(event) is ReasoningDelta

    def add(self, event: ReasoningDelta) -> str:
        """See OutputItem."""
        self._pieces.append(event.text)
        return event.text

    def body(self, status: Status) -> Item:
        """See OutputItem."""
        parts = [] if status == "in_progress" else [self._part()]
        item = {
            "id": self.id,
            "type": "reasoning",
            "status": status,
            "summary": parts if self._is_summary else [],
        }
        if not self._is_summary:
            item["content"] = parts
        if self._is_sealed and parts:
            item["encrypted_content"] = seal(parts[0]["text"])
        return item

    def opening(self) -> list[Told]:
        """See OutputItem."""
        return [(f"response.{self._part_event}.added", self._place | {"part": self._part()})]

    def closing(self) -> list[Told]:
        """See OutputItem."""
        part = self._part()
        return [
            (self._done, self._place | {"text": part["text"]}),
            (f"response.{self._part_event}.done", self._place | {"part": part}),
        ]

    def _part(self) -> Item:
        kind = "summary_text" if self._is_summary else "reasoning_text"
        return {"type": kind, "text": "".join(self._pieces)}


class CallOutput:
    """A call of a function."""

    delta: Told = ("response.function_call_arguments.delta", {})

    def __init__(
        self, new_id: str, first: ToolCallDelta, origins: dict[str, tuple[str, str]]
    ) -> None:
        self.id = new_id
        self._index = first.index
        self._call_id = first.id or ""
        namespace, self._name = origins.get(first.name or "", (None, first.name or ""))
        self._namespace = {} if namespace is None else {"namespace": namespace}
        self._pieces: list[str] = []

    def takes(self, event: Delta) -> bool:
        """See OutputItem."""
        return type(event) is ToolCallDelta and event.index == self._index

    def add(self, event: ToolCallDelta) -> str:
        """See OutputItem."""
        self._pieces.append(event.arguments)
        return event.arguments

    def body(self, status: Status) -> Item:
        """See OutputItem. A call that its model broke is incomplete, whatever comes after it."""
        arguments = "" if status == "in_progress" else "".join(self._pieces)
        if status == "completed" and not is_object(arguments):
            status = "incomplete"
        return {
            "id": self.id,
            "type": "function_call",
            "status": status,
            "call_id": self._call_id,
            "name": self._name,
            **self._namespace,
            "arguments": arguments,
        }

    def opening(self) -> list[Told]:
        """See OutputItem."""
        return []

    def closing(self) -> list[Told]:
        """See OutputItem."""
        done = {"name": self._name, "arguments": "".join(self._pieces)}
        return [("response.function_call_arguments.done", done)]


@dataclass(frozen=True, slots=True)
class ThoughtStyle:
    """How thoughts are told: as summaries, and packed too."""

    is_summary: bool = False
    is_sealed: bool = False


class Output:
    """The items of one answer. One instance per request."""

    def __init__(
        self, request_id: str, style: ThoughtStyle, origins: dict[str, tuple[str, str]]
    ) -> None:
        """`origins` is as an Offer has it."""
        self._request_id = request_id
        self._style = style
        self._origins = origins
        self.items: list[OutputItem] = []

    def item_for(self, event: Delta) -> OutputItem:
        """Return the item that an event is of: the last, or a new one behind it."""
        if not self.items or not self.items[-1].takes(event):
            self.items.append(self._new(event))
        return self.items[-1]

    def fold(self, events: Iterable[Delta]) -> None:
        """Take all events of an answer at once; one that says nothing is an empty message."""
        for event in events:
            self.item_for(event).add(event)
        if not self.items:
            self.item_for(TextDelta(""))

    def bodies(self, status: Status) -> list[Item]:
        """Return the items; all but the last are completed, and that is as `status` says."""
        last = len(self.items) - 1
        return [
            item.body(status if index == last else "completed")
            for index, item in enumerate(self.items)
        ]

    def _new(self, event: Delta) -> OutputItem:
        number = len(self.items)
        match event:
            case TextDelta():
                return MessageOutput(item_id("message", self._request_id, number))
            case ReasoningDelta():
                style = self._style
                return ReasoningOutput(
                    item_id("reasoning", self._request_id, number),
                    is_summary=style.is_summary,
                    is_sealed=style.is_sealed,
                )
            case ToolCallDelta():
                new_id = item_id("function_call", self._request_id, number)
                return CallOutput(new_id, event, self._origins)
