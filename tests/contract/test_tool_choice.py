"""A call that is a must ends alike in every dialect; where none came, none is made up."""

from typing import Any

import httpx
import pytest

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
FUNCTION = {"name": "now", "parameters": PARAMETERS, "strict": True}
NAMED = {"type": "function", "function": {"name": "now"}}
ALLOWED = {"mode": "required", "tools": [NAMED]}
FLAT = {"type": "function", "name": "now"}


def ask(http: httpx.Client, path: str, text: str, choice: object) -> dict[str, Any]:
    bodies: dict[str, dict[str, Any]] = {
        CHAT: {"tools": [{"type": "function", "function": FUNCTION}]},
        RESPONSES: {"tools": [{"type": "function", **FUNCTION}], "input": text},
        MESSAGES: {
            "tools": [{"name": "now", "input_schema": PARAMETERS, "strict": True}],
            "max_tokens": 100,
        },
    }
    body = {"model": "caller", "tool_choice": choice} | bodies[path]
    if path != RESPONSES:
        body["messages"] = [{"role": "user", "content": text}]
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    whole: dict[str, Any] = answer.json()
    return whole


def calls_and_end(answer: dict[str, Any]) -> tuple[list[str], str]:
    """Return the names that were called, and how the answer says it ended."""
    if "choices" in answer:
        (choice,) = answer["choices"]
        calls = choice["message"].get("tool_calls", [])
        return [call["function"]["name"] for call in calls], choice["finish_reason"]
    if "output" in answer:
        items = [item for item in answer["output"] if item["type"] == "function_call"]
        return [item["name"] for item in items], answer["status"]
    blocks = [block for block in answer["content"] if block["type"] == "tool_use"]
    return [block["name"] for block in blocks], answer["stop_reason"]


@pytest.mark.parametrize(
    ("path", "choice"),
    [
        (CHAT, "required"),
        (CHAT, NAMED),
        (CHAT, {"type": "allowed_tools", "allowed_tools": ALLOWED}),
        (RESPONSES, "required"),
        (RESPONSES, FLAT),
        (RESPONSES, {"type": "allowed_tools", "mode": "required", "tools": [FLAT]}),
        (MESSAGES, {"type": "any"}),
        (MESSAGES, {"type": "tool", "name": "now"}),
    ],
)
def test_call_that_is_a_must_ends_as_any_call_does(
    http: httpx.Client, path: str, choice: object
) -> None:
    with_call = {CHAT: "tool_calls", RESPONSES: "completed", MESSAGES: "tool_use"}
    without = {CHAT: "stop", RESPONSES: "completed", MESSAGES: "end_turn"}

    called = calls_and_end(ask(http, path, "only", choice))
    spoken = calls_and_end(ask(http, path, "hello", choice))

    assert called == (["now"], with_call[path])
    assert spoken == ([], without[path])


def test_stop_string_ends_a_form_early_and_says_so(http: httpx.Client) -> None:
    body = {
        "model": "caller",
        "messages": [{"role": "user", "content": "hello"}],
        "response_format": {"type": "json_object"},
        "stop": ["lo"],
    }

    (choice,) = http.post(CHAT, json=body).json()["choices"]

    assert choice["message"]["content"] == "Hel"
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "lo")
