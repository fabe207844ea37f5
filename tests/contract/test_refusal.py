"""What no model but a scripted one honours yet is refused by its name, never ignored."""

from typing import Any

import httpx
import msgspec
import pytest

from appliance.api.openai.chat.wire import ChatBody
from appliance.api.openai.completion.wire import CompletionBody
from appliance.api.openai.refusal import refused_fields

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
}
KINDS: dict[str, type[msgspec.Struct]] = {
    "/v1/chat/completions": ChatBody,
    "/v1/completions": CompletionBody,
}
TOOL = {"type": "function", "function": {"name": "f"}}
STRICT = {"type": "function", "function": {"name": "f", "strict": True}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
CALLED = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
PARTLY: list[tuple[str, str, dict[str, Any]]] = [
    ("/v1/chat/completions", "tool_choice", {"tools": [TOOL], "tool_choice": "required"}),
    ("/v1/chat/completions", "tool_choice", {"tools": [TOOL], "tool_choice": TOOL}),
    ("/v1/chat/completions", "tools[0].function.strict", {"tools": [STRICT]}),
    ("/v1/chat/completions", "messages[0].function_call", {"messages": [CALLED]}),
    (
        "/v1/chat/completions",
        "messages[0].content[0]",
        {"messages": [{"role": "user", "content": [IMAGE]}]},
    ),
    ("/v1/completions", "best_of", {"best_of": 2}),
]
WHOLLY = [
    (path, name, {name: {"odd": 1}})
    for path, kind in KINDS.items()
    for name in refused_fields(kind)
]


def post(http: httpx.Client, path: str, **fields: object) -> httpx.Response:
    """Ask a model whose files are absent: refusals come before they are looked for."""
    return http.post(path, json={"model": "real"} | BODIES[path] | fields)


@pytest.mark.parametrize(("path", "param", "fields"), WHOLLY + PARTLY)
def test_field_not_honoured_is_400_and_named(
    http: httpx.Client, path: str, param: str, fields: dict[str, Any]
) -> None:
    response = post(http, path, **fields)

    error = response.json()["error"]
    assert response.status_code == 400, response.text
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert param in error["message"]


@pytest.mark.parametrize("path", BODIES)
def test_refusal_of_a_stream_has_its_own_status(http: httpx.Client, path: str) -> None:
    response = post(http, path, stream=True, guided_regex="a+")

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "guided_regex"


@pytest.mark.parametrize("path", BODIES)
def test_neutral_values_are_not_refused(http: httpx.Client, path: str) -> None:
    refused = refused_fields(KINDS[path])
    neutral = {name: values[-1] if values else None for name, values in refused.items()}

    response = post(http, path, **neutral)

    assert response.status_code == 503, response.text


@pytest.mark.parametrize("path", BODIES)
def test_scripted_model_accepts_every_field(http: httpx.Client, path: str) -> None:
    odd = {name: {"odd": 1} for name in refused_fields(KINDS[path])}

    response = post(http, path, model="chat", **odd)

    assert response.status_code == 200, response.text
