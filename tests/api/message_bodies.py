"""Write Messages bodies, and read what they come to."""

from typing import Any

import msgspec

from appliance.api.anthropic.codec import to_prompt
from appliance.api.anthropic.wire import MessagesBody
from appliance.chat.request import Message


def decode_body(**fields: object) -> MessagesBody:
    asked = [{"role": "user", "content": "hi"}]
    body = {"model": "m", "max_tokens": 9, "messages": asked, **fields}
    return msgspec.json.decode(msgspec.json.encode(body), type=MessagesBody)


def read(*messages: object, **fields: object) -> tuple[Message, ...]:
    """Return the turns of a conversation, whoever has the last word."""
    return to_prompt(decode_body(messages=messages, **fields)).messages


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": blocks}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": blocks}


def text(words: str, **fields: object) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def result(content: object, **fields: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}
