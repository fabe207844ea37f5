"""Make a long conversation in every dialect, and read it as the appliance does."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from appliance.api.anthropic import codec as messages_codec
from appliance.api.anthropic.wire import MessagesBody
from appliance.api.openai.chat import codec as chat_codec
from appliance.api.openai.chat.wire import ChatBody
from appliance.api.openai.completion import codec as completion_codec
from appliance.api.openai.completion.wire import CompletionBody
from appliance.api.openai.responses import codec as responses_codec
from appliance.api.openai.responses.tool import read_tools
from appliance.api.openai.responses.wire import ResponsesBody
from appliance.chat.request import ChatRequest
from appliance.chat.traits import Traits

NUM_TURNS = 20
MOST_TOKENS = 10_000
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path"],
}
STRICT_TEMPLATE = Traits(
    system="one", late_system=False, repeats=False, parallel_calls=False, text_beside_call=False
)
"""A template for which much of a conversation has to be moved."""


@dataclass(frozen=True)
class Reading:
    """One dialect's long request: its bytes, and how they become the appliance's own."""

    path: str
    body: bytes
    decode: Callable[[bytes], Any]
    convert: Callable[[Any], ChatRequest]


def short_body(path: str, text: str) -> bytes:
    """Return a streamed request with one tool for a text, in the dialect of a path."""
    body = {"model": "load", "stream": True, **_fields(path, [{"role": "user", "content": text}])}
    if path == "/v1/completions":
        body["prompt"] = text
    return json.dumps(body).encode()


def readings(num_bytes: int) -> list[Reading]:
    """Return a request of about so many bytes in every dialect."""
    piece = 'All work is done, says the log in line 7, and "nothing" else.\n' * (
        num_bytes // NUM_TURNS // 200
    )
    chat = msgspec.json.Decoder(ChatBody)
    completion = msgspec.json.Decoder(CompletionBody)
    responses = msgspec.json.Decoder(ResponsesBody)
    messages = msgspec.json.Decoder(MessagesBody)
    convert: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], ChatRequest]]] = {
        "/v1/chat/completions": (chat.decode, chat_codec.to_chat_request),
        "/v1/completions": (completion.decode, lambda b: completion_codec.to_chat_requests(b)[0]),
        "/v1/responses": (responses.decode, _responses_request),
        "/v1/messages": (messages.decode, lambda b: messages_codec.to_chat_request(b, MOST_TOKENS)),
    }
    return [Reading(path, _long_body(path, piece), *convert[path]) for path in convert]


def _responses_request(body: ResponsesBody) -> ChatRequest:
    responses_codec.check_body(body)
    history = responses_codec.History([], responses_codec.given_items(body))
    return responses_codec.to_chat_request(body, history, read_tools(body))


def _long_body(path: str, piece: str) -> bytes:
    turns = [turn for number in range(NUM_TURNS) for turn in _TURNS[path](f"c{number}", piece)]
    fields = _fields(path, turns)
    if path == "/v1/completions":
        fields["prompt"] = piece * NUM_TURNS * 3
    return json.dumps({"model": "load", **fields}).encode()


def _fields(path: str, turns: list[Any]) -> dict[str, Any]:
    function = {"name": "write", "description": "Write a file.", "parameters": SCHEMA}
    if path == "/v1/chat/completions":
        return {"messages": turns, "tools": [{"type": "function", "function": function}]}
    if path == "/v1/responses":
        return {"input": turns, "tools": [{"type": "function", **function}]}
    if path == "/v1/messages":
        tool = {"name": "write", "input_schema": SCHEMA}
        return {"messages": turns, "tools": [tool], "max_tokens": MOST_TOKENS}
    return {"max_tokens": MOST_TOKENS}


def _chat_turns(call: str, piece: str) -> list[Any]:
    function = {"name": "write", "arguments": json.dumps({"path": "a", "content": piece})}
    calls = [{"id": call, "type": "function", "function": function}]
    return [
        {"role": "user", "content": [{"type": "text", "text": piece}]},
        {"role": "assistant", "content": "Yes.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": call, "content": piece},
        {"role": "system", "content": "Go on."},
    ]


def _responses_turns(call: str, piece: str) -> list[Any]:
    arguments = json.dumps({"path": "a", "content": piece})
    return [
        {"role": "user", "content": [{"type": "input_text", "text": piece}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
        {"type": "function_call", "call_id": call, "name": "write", "arguments": arguments},
        {"type": "function_call_output", "call_id": call, "output": piece},
        {"role": "developer", "content": "Go on."},
    ]


def _messages_turns(call: str, piece: str) -> list[Any]:
    arguments = {"path": "a", "content": piece}
    return [
        {"role": "user", "content": [{"type": "text", "text": piece}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Yes."},
                {"type": "tool_use", "id": call, "name": "write", "input": arguments},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call, "content": piece}],
        },
        {"role": "system", "content": "Go on."},
    ]


_TURNS: dict[str, Callable[[str, str], list[Any]]] = {
    "/v1/chat/completions": _chat_turns,
    "/v1/completions": lambda call, piece: [],
    "/v1/responses": _responses_turns,
    "/v1/messages": _messages_turns,
}
