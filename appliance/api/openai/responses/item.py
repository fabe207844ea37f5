"""Turn the items of a conversation into messages of no dialect. Pure."""

from dataclasses import dataclass, field

import msgspec

from appliance.api.content import Content, check_thoughts, file_url
from appliance.api.openai.part import add_part
from appliance.api.openai.responses.wire import (
    CallItem,
    CallOutputItem,
    InputFile,
    InputImage,
    Item,
    MessageItem,
    Part,
    ReasoningItem,
    converted,
)
from appliance.api.tool import arguments_text
from appliance.chat.request import Message, ToolCall
from appliance.chat.seal import unseal
from appliance.errors import InvalidRequest

_OWN_FIELDS = {"type", "id", "call_id", "status", "name"}
_OUTPUT = "_output"
_CALL = "_call"

_json = msgspec.json.Encoder()


@dataclass(slots=True)
class _Turn:
    """What the assistant said in one go: a thought, a text, calls."""

    thought: str | None = None
    content: str | None = None
    calls: list[ToolCall] = field(default_factory=list)

    @property
    def is_begun(self) -> bool:
        return self.content is not None or bool(self.calls)


class Conversation:
    """Messages, made of items in their order. One instance per request.

    A thought, a text and calls that follow one another are one turn of the assistant. Items of
    other services' tools become calls and results of tools where they can be, and else are left
    out: what they brought about is in what follows them.
    """

    def __init__(self, instructions: str | None = None) -> None:
        self._messages: list[Message] = []
        self._turn: _Turn | None = None
        self._names: dict[str, str] = {}
        self._call_ids: dict[str, str] = {}
        self._num_thought = 0
        if instructions is not None:
            self._messages.append(Message("system", instructions))

    def add(self, item: Item, place: str) -> None:
        """Add an item; `place` is its path in the body. Raises InvalidRequest naming the field."""
        kind = item_kind(item)
        match kind:
            case "message":
                self._add_message(converted(item, MessageItem, place), place)
            case "function_call":
                call = converted(item, CallItem, place)
                name = full_name(call.namespace, call.name)
                self._add_call(call.call_id, name, arguments_text(call.arguments))
            case "function_call_output" | "custom_tool_call_output":
                result = converted(item, CallOutputItem, place)
                self._add_result(result.call_id, _content(result.output, f"{place}.output"))
            case "reasoning":
                self._add_thought(converted(item, ReasoningItem, place))
            case "compaction":
                reason = "a conversation that another service packed cannot be read here"
                raise InvalidRequest(f"{place}: {reason}.", param=place)
            case str():
                self._add_foreign(kind, item)
            case _:
                raise InvalidRequest(f"{place}.type is missing.", param=f"{place}.type")

    def messages(self) -> tuple[Message, ...]:
        """Return the messages so far."""
        self._end_turn()
        return tuple(self._messages)

    def _add_message(self, message: MessageItem, place: str) -> None:
        content = _content(message.content, f"{place}.content")
        if message.role == "assistant" and not content.media:
            if self._turn is not None and self._turn.content is not None:
                self._end_turn()
            self._open_turn().content = content.text or ""
            return
        self._end_turn()
        self._messages.append(Message(message.role, content.text, media=content.media))

    def _add_call(self, call_id: str, name: str, arguments: str) -> None:
        self._names[call_id] = name
        self._open_turn().calls.append(ToolCall(call_id, name, arguments))

    def _add_result(self, call_id: str, content: Content) -> None:
        self._end_turn()
        self._messages.append(
            Message(
                "tool",
                content.text or "",
                name=self._names.get(call_id),
                tool_call_id=call_id,
                media=content.media,
            )
        )

    def _add_thought(self, item: ReasoningItem) -> None:
        sealed = unseal(item.encrypted_content) if item.encrypted_content else None
        thought = sealed or "\n".join(part.text for part in item.content or item.summary or ())
        self._num_thought += len(thought)
        check_thoughts(self._num_thought, "input")
        if self._turn is not None and self._turn.is_begun:
            self._end_turn()
        turn = self._open_turn()
        turn.thought = "\n".join(filter(None, (turn.thought, thought))) or None

    def _add_foreign(self, kind: str, item: Item) -> None:
        own, called = item.get("id"), item.get("call_id")
        if kind.endswith(_OUTPUT):
            call_id = called or self._call_ids.get(str(own)) or own
            if isinstance(call_id, str):
                self._add_result(call_id, _foreign_text(item.get("output")))
        elif kind.endswith(_CALL):
            # A call without an id of its own was its service's to answer: none follows.
            call_id = called or own
            if isinstance(call_id, str) and (called or "output" in item):
                self._call_ids[str(own)] = call_id
                self._add_call(call_id, _foreign_name(kind, item), _foreign_arguments(item))
                if "output" in item:
                    self._add_result(call_id, _foreign_text(item["output"]))

    def _open_turn(self) -> _Turn:
        if self._turn is None:
            self._turn = _Turn()
        return self._turn

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None and (turn.is_begun or turn.thought):
            self._messages.append(
                Message(
                    "assistant",
                    turn.content,
                    tool_calls=tuple(turn.calls),
                    thought=turn.thought,
                )
            )


def full_name(namespace: str | None, name: str) -> str:
    """Return the name that a model calls a function by, wherever it is declared."""
    return name if namespace is None else f"{namespace.rstrip('_')}__{name}"


def item_kind(item: Item) -> str | None:
    """Return an item's type; a message, and a mere reference, may come without."""
    kind = item.get("type")
    if kind is None:
        return "message" if "role" in item else "item_reference" if "id" in item else None
    return kind if isinstance(kind, str) else None


def _content(content: str | list[Part] | None, place: str) -> Content:
    joined = Content()
    if isinstance(content, str):
        joined.add_text(content)
        return joined
    for number, part in enumerate(content or ()):
        _add_part(joined, part, f"{place}[{number}]")
    return joined


def _add_part(joined: Content, part: Part, place: str) -> None:
    match part:
        case InputImage():
            joined.add_media("image", _address(part.image_url, part.file_id, place), place)
        case InputFile():
            data = part.file_url if part.file_data is None else file_url(part.file_data)
            joined.add_media("file", _address(data, part.file_id, place), place)
        case _:
            add_part(joined, part, place)


def _address(url: str | None, file_id: str | None, place: str) -> str:
    if url is not None:
        return url
    reason = "its address or content is missing"
    if file_id is not None:
        place, reason = f"{place}.file_id", "this server keeps no files that an id could mean"
    raise InvalidRequest(f"{place}: {reason}.", param=place)


def _foreign_name(kind: str, item: Item) -> str:
    name = item.get("name")
    return name if isinstance(name, str) and name else kind.removesuffix(_CALL)


def _foreign_arguments(item: Item) -> str:
    arguments = item.get("arguments")
    if isinstance(arguments, str):
        return arguments
    fields = {key: item[key] for key in item.keys() - _OWN_FIELDS - {"output"}}
    return _json.encode(dict(sorted(fields.items()))).decode()


def _foreign_text(output: object) -> Content:
    joined = Content()
    if output is not None:
        joined.add_text(output if isinstance(output, str) else _json.encode(output).decode())
    return joined
