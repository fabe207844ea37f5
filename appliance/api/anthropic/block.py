"""Read Messages' content blocks into turns: text, media, thoughts, calls and results. Pure."""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from appliance.api.anthropic.wire import Block, Source, WireMessage
from appliance.api.content import Content, check_thoughts
from appliance.api.tool import arguments_text
from appliance.chat.request import Message, ToolCall
from appliance.chat.seal import unseal
from appliance.errors import InvalidRequest

T = TypeVar("T")

_OURS, _THEIRS = "call_", "toolu_"
_MOST_NESTED = 4
_TEXT_TYPES = ("text/", "application/json", "application/xml")

# Agents put a line that differs with every request before all else, where it would make every
# prompt new from its first token on.
_VOLATILE = re.compile(r"\A(?:\s*x-anthropic-[\w-]+:[^\n]*(?:\n|\Z))+")


def wire_call_id(call_id: str) -> str:
    """Return a call's id as Messages spells it."""
    return _THEIRS + call_id[len(_OURS) :] if call_id.startswith(_OURS) else call_id


def own_call_id(wire_id: str) -> str:
    """Return the id that `wire_call_id` spelled; foreign ids stay as they are."""
    return _OURS + wire_id[len(_THEIRS) :] if wire_id.startswith(_THEIRS) else wire_id


def read_system(content: str | list[Block], place: str) -> Message | None:
    """Return a system prompt without its volatile lines; None if nothing is left."""
    blocks = [Block("text", text=content)] if isinstance(content, str) else content
    turn = _Turn("system")
    _read_blocks(turn, [_without_volatile(block) for block in blocks], place)
    text = turn.content.text
    return None if text is None else Message("system", text)


def _without_volatile(block: Block) -> Block:
    if not block.text or not _VOLATILE.match(block.text):
        return block
    return msgspec.structs.replace(block, text=_VOLATILE.sub("", block.text))


def read_messages(messages: list[WireMessage]) -> list[Message]:
    """Return the turns of a conversation; raises InvalidRequest naming the block."""
    turns: list[Message] = []
    num_thought = 0
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        for turn in _read_message(message, place):
            num_thought += len(turn.thought or "")
            check_thoughts(num_thought, place)
            turns.append(turn)
    return turns


def _read_message(message: WireMessage, place: str) -> list[Message]:
    """Return a message's turns: tool results come before what else the user says."""
    content = [] if message.content is None else message.content
    if message.role == "system":
        system = read_system(content, f"{place}.content")
        return [] if system is None else [system]
    if isinstance(content, str):
        return [Message(message.role, content)]
    turn = _Turn(message.role)
    _read_blocks(turn, content, f"{place}.content")
    text, media = turn.content.text, turn.content.media
    if message.role == "assistant":
        calls, thought = tuple(turn.calls), "\n".join(turn.thoughts) or None
        text = text if calls else text or ""
        return [Message("assistant", text, tool_calls=calls, thought=thought, media=media)]
    is_said = text or media or not turn.results
    said = [Message("user", text or "", media=media)] if is_said else []
    return [*turn.results, *said]


@dataclass(slots=True)
class _Turn:
    """What the blocks of one message come to, as far as they are read."""

    role: str
    content: Content = field(default_factory=Content)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    num_thought: int = 0

    def say(self, *texts: str | None) -> None:
        """Add text; nothing and empty text are left out."""
        for text in texts:
            if text:
                self.content.add_text(text)


def _read_blocks(turn: _Turn, blocks: list[Block], place: str) -> None:
    for index, block in enumerate(blocks):
        _read_block(turn, block, f"{place}[{index}]")


def _read_block(turn: _Turn, block: Block, place: str) -> None:
    _READERS.get(block.type, _read_unknown)(turn, block, place)


def _read_text(turn: _Turn, block: Block, place: str) -> None:
    turn.say(_present(block.text, f"{place}.text"))


def _read_image(turn: _Turn, block: Block, place: str) -> None:
    source = _source(block, place)
    turn.content.add_media("image", _url(source, f"{place}.source"), place)


def _read_document(turn: _Turn, block: Block, place: str) -> None:
    """Read a document: one that is text as text, with its title and context before it."""
    source, spot = _source(block, place), f"{place}.source"
    turn.say(block.title, block.context)
    if source.type == "text":
        turn.say(_present(source.data, f"{spot}.data"))
    elif source.type == "content":
        _read_content(turn, _present(source.content, f"{spot}.content"), f"{spot}.content")
    elif source.type == "base64" and (source.media_type or "").startswith(_TEXT_TYPES):
        turn.say(_decoded(_present(source.data, f"{spot}.data"), f"{spot}.data"))
    else:
        turn.content.add_media("file", _url(source, spot), place)


def _read_thinking(turn: _Turn, block: Block, place: str) -> None:
    """Read a thought: its text, or where that was left out what its signature carries."""
    thought = block.thinking or unseal(block.signature or block.data or "")
    if thought:
        turn.num_thought += len(thought)
        check_thoughts(turn.num_thought, place)
        turn.thoughts.append(thought)


def _read_tool_use(turn: _Turn, block: Block, place: str) -> None:
    if turn.role != "assistant":
        raise InvalidRequest(f"{place}: only assistants use tools.", param=place)
    wire_id, name = _present(block.id, f"{place}.id"), _present(block.name, f"{place}.name")
    try:
        arguments = arguments_text(block.input or {})
    except RecursionError as error:
        spot = f"{place}.input"
        raise InvalidRequest(f"{spot}: is nested too deeply.", param=spot) from error
    turn.calls.append(ToolCall(own_call_id(wire_id), name, arguments))


def _read_tool_result(turn: _Turn, block: Block, place: str) -> None:
    """Read a result as a turn of its own; an error says so, unless its text begins with that."""
    if turn.role != "user":
        raise InvalidRequest(f"{place}: results of tools belong to user messages.", param=place)
    wire_id = _present(block.tool_use_id, f"{place}.tool_use_id")
    result = _Turn("tool")
    if block.content is not None:
        _read_content(result, block.content, f"{place}.content")
    text, media = result.content.text or "", result.content.media
    message = Message("tool", text, tool_call_id=own_call_id(wire_id), media=media)
    if block.is_error and not text.lstrip("<").lower().startswith(("error", "tool_use_error")):
        message = message.after("Error: " if text else "Error")
    turn.results.append(message)


def _read_search_result(turn: _Turn, block: Block, place: str) -> None:
    turn.say(block.title, block.source if isinstance(block.source, str) else None)
    _read_unknown(turn, block, place)


def _read_unknown(turn: _Turn, block: Block, place: str) -> None:
    turn.say(block.text)
    if isinstance(block.content, str | list):
        _read_content(turn, block.content, f"{place}.content")


def _read_content(turn: _Turn, content: object, place: str) -> None:
    """Read what stands inside a block."""
    if place.count(".content") > _MOST_NESTED:
        raise InvalidRequest(f"{place}: blocks are nested too deeply.", param=place)
    if isinstance(content, str):
        turn.say(content)
    elif isinstance(content, list):
        _read_blocks(turn, content, place)
    else:
        raise InvalidRequest(f"{place}: should be a string or a list of blocks.", param=place)


def _source(block: Block, place: str) -> Source:
    if not isinstance(block.source, Source):
        raise InvalidRequest(f"{place}.source: should be an object.", param=f"{place}.source")
    return block.source


def _url(source: Source, place: str) -> str:
    """Return where an image or document is: its address, or itself as a data URL."""
    if source.type == "url":
        return _present(source.url, f"{place}.url")
    if source.type == "base64":
        media_type = _present(source.media_type, f"{place}.media_type")
        return f"data:{media_type};base64,{_present(source.data, f'{place}.data')}"
    raise InvalidRequest(
        f"{place}.type: sources of type '{source.type}' are not supported.", param=f"{place}.type"
    )


def _decoded(data: str, place: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (ValueError, binascii.Error) as error:
        raise InvalidRequest(f"{place}: is not base64 of UTF-8 text.", param=place) from error


def _present(value: T | None, place: str) -> T:
    if value is None:
        raise InvalidRequest(f"{place} is missing.", param=place)
    return value


_READERS: dict[str, Callable[[_Turn, Block, str], None]] = {
    "text": _read_text,
    "image": _read_image,
    "document": _read_document,
    "thinking": _read_thinking,
    "redacted_thinking": _read_thinking,
    "tool_use": _read_tool_use,
    "tool_result": _read_tool_result,
    "search_result": _read_search_result,
}
