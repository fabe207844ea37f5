"""Write messages and tools as the values that a chat template reads."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.traits import Spelling

_SHORT_ID = 9
_NO_PARAMETERS = {"type": "object", "properties": {}}


def message_values(messages: Iterable[Message], spelling: Spelling) -> list[dict[str, Any]]:
    """Return a conversation as templates know it; the ids of calls and results still agree."""
    if spelling.ids == "numbered":
        messages = _numbered(messages)
    return [message_value(message, spelling) for message in messages]


def message_value(message: Message, spelling: Spelling) -> dict[str, Any]:
    """Return a message as templates know it: absent things are absent, not None.

    But no text is the empty text: many templates fail on a tool call without content.
    """
    value: dict[str, Any] = {"role": message.role, "content": message.content or ""}
    if message.name is not None:
        value["name"] = message.name
    if message.thought and spelling.thought is not None:
        _add_thought(value, message.thought, spelling.thought)
    if message.tool_calls:
        if spelling.has_null_content and not message.content:
            value["content"] = None
        value["tool_calls"] = [_call_value(call, spelling) for call in message.tool_calls]
    if message.tool_call_id is not None:
        value["tool_call_id"] = _id(message.tool_call_id, spelling)
    return value


def tool_value(tool: Tool, spelling: Spelling) -> dict[str, Any]:
    """Return a tool in OpenAI's envelope, as templates know it."""
    function = msgspec.to_builtins(tool)
    function.pop("strict", None)  # a wish about the answer, of which no model was taught
    if spelling.fills_tools:
        function = {"description": "", "parameters": _NO_PARAMETERS} | function
        function["parameters"] = _described(function["parameters"])
    value = {"type": "function", "function": function}
    return function | value if spelling.tools == "flat" else value


def arguments_object(text: str) -> dict[str, Any] | None:
    """Return a call's arguments, of which no text and `null` are none; None if no JSON object.

    What JSON allows and no text can hold, such as half a character, is none either.
    """
    if text.strip() in ("", "null"):
        return {}
    try:
        fields: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None
    return fields


def arguments_text(text: str) -> str:
    """Return a call's arguments as JSON in one spelling, whatever its client made of it."""
    fields = arguments_object(text)
    try:
        return text if fields is None else json.dumps(fields, ensure_ascii=False)
    except RecursionError:
        return text


def _add_thought(value: dict[str, Any], thought: str, form: str) -> None:
    if form == "blocks":
        content = value["content"]
        text = [{"type": "text", "text": content}] if content else []
        value["content"] = [{"type": "thinking", "thinking": thought}, *text]
    else:
        value[form] = thought


def _call_value(call: ToolCall, spelling: Spelling) -> dict[str, Any]:
    return {
        "id": _id(call.id, spelling),
        "type": "function",
        "function": {"name": call.name, "arguments": _arguments(call.arguments, spelling)},
    }


def _arguments(text: str, spelling: Spelling) -> object:
    """Return a JSON object as a mapping, since most templates walk it, and all else as it is."""
    if spelling.arguments == "text":
        return arguments_text(text)
    value = arguments_object(text)
    if value is None:
        return {"arguments": text} if spelling.arguments == "mapping" else text
    return value


def _numbered(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages with ids that name the function and count all calls so far."""
    ids: dict[str | None, str] = {}
    count = 0
    for message in messages:
        calls = []
        for call in message.tool_calls:
            ids[call.id] = f"functions.{call.name}:{count}"
            calls.append(replace(call, id=ids[call.id]))
            count += 1
        result_id = ids.get(message.tool_call_id, message.tool_call_id)
        yield replace(message, tool_calls=tuple(calls), tool_call_id=result_id)


def _id(text: str, spelling: Spelling) -> str:
    if spelling.ids != "short" or (len(text) == _SHORT_ID and text.isalnum() and text.isascii()):
        return text
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_SHORT_ID]


def _described(schema: Any) -> Any:  # noqa: ANN401 - what a caller wrote
    """Return a JSON Schema in which every property of an object has a description."""
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return schema
    properties = {
        name: {"description": ""} | _described(each) if isinstance(each, dict) else each
        for name, each in schema["properties"].items()
    }
    return schema | {"properties": properties}
