"""List what is refused by name; `python -m tests.contract.refusal` writes it for the operator."""

import json
from pathlib import Path
from typing import Any

import httpx
import msgspec

from appliance.api.openai.chat.wire import ChatBody
from appliance.api.openai.completion.wire import CompletionBody
from appliance.api.openai.refusal import refused_fields
from appliance.api.openai.responses.wire import ResponsesBody
from tests.appliance_server import running_appliance

LIST = Path(__file__).parents[2] / "ops" / "docs" / "refused-parameters.md"
MANIFEST = """\
version: 1
models:
  - {name: real, source: "path:absent"}
"""
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
ASK = {"role": "user", "content": "hi"}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [ASK]},
    TEXT: {"prompt": "hi"},
    RESPONSES: {"input": "hi"},
    MESSAGES: {"messages": [ASK], "max_tokens": 8},
}
KINDS: dict[str, type[msgspec.Struct]] = {
    CHAT: ChatBody,
    TEXT: CompletionBody,
    RESPONSES: ResponsesBody,
}
FUNCTION = {"name": "f", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}
OWN = {"name": "f", "input_schema": {"type": "object"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
PICTURE = {"type": "image", "source": {"type": "url", "url": "http://a/b.png"}}
JSON = {"format": {"type": "json_object"}}
PARTLY: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"tools": [TOOL], "tool_choice": "required"}),
    (CHAT, {"tools": [{"type": "function", "function": FUNCTION | {"strict": True}}]}),
    (CHAT, {"messages": [{"role": "user", "content": [IMAGE]}]}),
    (CHAT, {"top_logprobs": 21, "logprobs": True}),
    (CHAT, {"max_tokens": 100_000}),
    (TEXT, {"best_of": 2}),
    (TEXT, {"echo": True, "logprobs": 1}),
    (TEXT, {"max_tokens": 100_000}),
    (RESPONSES, {"tools": [{"type": "function", **FUNCTION}], "tool_choice": "required"}),
    (RESPONSES, {"tools": [{"type": "function", "strict": True, **FUNCTION}]}),
    (RESPONSES, {"tools": [{"type": "file_search"}]}),
    (RESPONSES, {"text": JSON}),
    (RESPONSES, {"stream": True, "background": True}),
    (RESPONSES, {"store": False, "background": True}),
    (RESPONSES, {"truncation": "auto"}),
    (RESPONSES, {"conversation": "conv_1"}),
    (RESPONSES, {"prompt": {"id": "p"}}),
    (RESPONSES, {"max_output_tokens": 100_000}),
    (MESSAGES, {"tools": [OWN], "tool_choice": {"type": "any"}}),
    (MESSAGES, {"tools": [OWN], "tool_choice": {"type": "tool", "name": "f"}}),
    (MESSAGES, {"tools": [OWN | {"strict": True}]}),
    (MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    (MESSAGES, {"output_config": JSON}),
    (MESSAGES, {"mcp_servers": [{"type": "url", "url": "http://a", "name": "a"}]}),
    (MESSAGES, {"thread": {"type": "create"}}),
    (MESSAGES, {"messages": [ASK, {"role": "assistant", "content": "I"}]}),
    (MESSAGES, {"messages": [{"role": "user", "content": [PICTURE]}]}),
    (MESSAGES, {"max_tokens": 100_000}),
]
WHOLLY: list[tuple[str, dict[str, Any]]] = [
    (path, {name: {"odd": 1}}) for path, kind in KINDS.items() for name in refused_fields(kind)
]
CASES = WHOLLY + PARTLY
HEAD = """\
# What is refused

What a request asks for and no model here can do yet is a 400 that names it, never silence.
Scripted models accept most of it. The tests write this list from what an appliance answers.

| path | asked for | answer |
|---|---|---|
"""


def refused(http: httpx.Client, path: str, fields: dict[str, Any]) -> str:
    """Send what is to be refused and return the error's words."""
    response = http.post(path, json={"model": "real"} | BODIES[path] | fields)

    assert response.status_code == 400, (path, fields, response.text)
    return str(response.json()["error"]["message"])


def list_text() -> str:
    """Return the list, from the answers of an appliance of its own."""
    with (
        running_appliance(MANIFEST, {}) as appliance,
        httpx.Client(base_url=appliance.url, timeout=30) as http,
    ):
        rows = [_row(path, fields, refused(http, path, fields)) for path, fields in CASES]
    return HEAD + "".join(rows)


def _row(path: str, fields: dict[str, Any], message: str) -> str:
    asked = " ".join(name for name in fields if fields[name] == {"odd": 1}) or _short(fields)
    return f"| {path} | `{asked}` | {message.replace('|', '&#124;')} |\n"


def _short(fields: dict[str, Any]) -> str:
    return json.dumps(fields)[1:-1]


if __name__ == "__main__":
    LIST.write_text(list_text(), encoding="utf-8")
