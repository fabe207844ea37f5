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
Case = tuple[str, str, dict[str, Any]]
"""A path, the field that is refused there, and a body's fields beside what must be in it."""

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
NAMED = {"type": "function", "function": {"name": "f"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
PICTURE = {"type": "image", "source": {"type": "url", "url": "http://a/b.png"}}
CALLED = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
NO_SCHEMA = {"type": "json_schema", "json_schema": {"type": "object"}}
ALLOWED = {"mode": "auto", "tools": [NAMED]}
PARTLY: list[Case] = [
    (CHAT, "messages[0].function_call", {"messages": [CALLED]}),
    (CHAT, "tool_choice", {"tool_choice": "required"}),
    (CHAT, "tool_choice", {"tool_choice": NAMED}),
    (CHAT, "tool_choice", {"tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED}}),
    (CHAT, "response_format.json_schema", {"response_format": NO_SCHEMA}),
    (CHAT, "response_format.type", {"response_format": {"type": "structural_tag"}}),
    (CHAT, "guided_choice", {"guided_choice": ["a"], "guided_regex": "a"}),
    (CHAT, "structured_outputs", {"structured_outputs": {"regex": "a", "choice": ["a"]}}),
    (
        CHAT,
        "structured_outputs.structural_tag",
        {"structured_outputs": {"regex": "a", "structural_tag": "b"}},
    ),
    (CHAT, "messages[0].content[0]", {"messages": [{"role": "user", "content": [IMAGE]}]}),
    (CHAT, "top_logprobs", {"top_logprobs": 21, "logprobs": True}),
    (CHAT, "max_tokens", {"max_tokens": 100_000}),
    (TEXT, "best_of", {"best_of": 2}),
    (TEXT, "logprobs", {"echo": True, "logprobs": 1}),
    (TEXT, "max_tokens", {"max_tokens": 100_000}),
    (RESPONSES, "tool_choice", {"tool_choice": "required"}),
    (RESPONSES, "tools[0].type", {"tools": [{"type": "file_search"}]}),
    (RESPONSES, "text.format", {"text": {"format": {"type": "json_schema", "name": "a"}}}),
    (RESPONSES, "text.verbosity", {"text": {"verbosity": "low"}}),
    (RESPONSES, "stream", {"stream": True, "background": True}),
    (RESPONSES, "background", {"store": False, "background": True}),
    (RESPONSES, "truncation", {"truncation": "auto"}),
    (RESPONSES, "conversation", {"conversation": "conv_1"}),
    (RESPONSES, "prompt", {"prompt": {"id": "p"}}),
    (RESPONSES, "max_output_tokens", {"max_output_tokens": 100_000}),
    (MESSAGES, "tool_choice", {"tool_choice": {"type": "any"}}),
    (MESSAGES, "tool_choice", {"tool_choice": {"type": "tool", "name": "f"}}),
    (MESSAGES, "tools[0].type", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    (MESSAGES, "output_config.format", {"output_config": {"format": {"type": "json_schema"}}}),
    (MESSAGES, "mcp_servers", {"mcp_servers": [{"type": "url", "url": "http://a", "name": "a"}]}),
    (MESSAGES, "thread", {"thread": {"type": "create"}}),
    (MESSAGES, "messages[1]", {"messages": [ASK, {"role": "assistant", "content": "I"}]}),
    (MESSAGES, "messages[0].content[0]", {"messages": [{"role": "user", "content": [PICTURE]}]}),
    (MESSAGES, "max_tokens", {"max_tokens": 100_000}),
]
WHOLLY: list[Case] = [
    (path, name, {name: {"odd": 1}})
    for path, kind in KINDS.items()
    for name in refused_fields(kind)
]
CASES = WHOLLY + PARTLY
HEAD = """\
# What is refused

What a request asks for and no model here can do yet is a 400 that names it, never silence.
Scripted models accept most of it. The tests write this list from what an appliance answers.

| path | asked for | answer |
|---|---|---|
"""


def post(http: httpx.Client, path: str, **fields: object) -> httpx.Response:
    """Ask a model whose files are absent: refusals come before they are looked for."""
    return http.post(path, json={"model": "real"} | BODIES[path] | fields)


def list_text() -> str:
    """Return the list, from the answers of an appliance of its own."""
    with (
        running_appliance(MANIFEST, {}) as appliance,
        httpx.Client(base_url=appliance.url, timeout=30) as http,
    ):
        rows = [_row(path, fields, post(http, path, **fields)) for path, _, fields in CASES]
    return HEAD + "".join(rows)


def _row(path: str, fields: dict[str, Any], response: httpx.Response) -> str:
    asked = " ".join(name for name in fields if fields[name] == {"odd": 1}) or _short(fields)
    message = response.json()["error"]["message"].replace("|", "&#124;")
    return f"| {path} | `{asked}` | {response.status_code}: {message} |\n"


def _short(fields: dict[str, Any]) -> str:
    return json.dumps(fields)[1:-1]


if __name__ == "__main__":
    LIST.write_text(list_text(), encoding="utf-8")
