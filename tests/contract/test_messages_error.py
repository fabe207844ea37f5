"""What Messages refuses: the status, Anthropic's shape, and the name of the field."""

import json
from typing import Any

import httpx
import pytest
from anthropic import Anthropic, APIStatusError, NotFoundError

from appliance.telemetry.metrics import NO_MODEL
from tests.appliance_server import RunningAppliance, wait_until
from tests.contract.http import metric

ASKED: dict[str, Any] = {
    "model": "chat",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hi"}],
}


def refuse(url: str, body: bytes, path: str = "/v1/messages", method: str = "POST") -> Any:  # noqa: ANN401
    """Return a refusal's status, type and message, once its shape is checked."""
    response = httpx.request(method, url + path, content=body, timeout=30)
    error = response.json()
    assert error.keys() == {"type", "error", "request_id"}
    assert error["error"].keys() == {"type", "message"}
    assert (error["type"], error["request_id"]) == ("error", response.headers["request-id"])
    return response.status_code, error["error"]["type"], error["error"]["message"]


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 1001}, "max_tokens is 1001; this server allows at most 1000"),
        ({"temperature": "warm"}, "temperature"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0]"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"mcp_servers": [{"type": "url", "name": "x", "url": "https://x"}]}, "mcp_servers"),
        ({"system": 5}, "system"),
    ],
)
def test_bad_field_is_named(
    appliance: RunningAppliance, fields: dict[str, Any], place: str, *, is_streamed: bool
) -> None:
    body = json.dumps({**ASKED, **fields, "stream": is_streamed}).encode()

    status, kind, message = refuse(appliance.url, body)

    assert (status, kind) == (400, "invalid_request_error")
    assert message.startswith(place)


@pytest.mark.parametrize("missing", ["model", "messages", "max_tokens"])
def test_missing_field_is_named(appliance: RunningAppliance, missing: str) -> None:
    body = {name: value for name, value in ASKED.items() if name != missing}

    status, _, message = refuse(appliance.url, json.dumps(body).encode())

    assert status == 400
    assert f"`{missing}`" in message


@pytest.mark.parametrize("flag", ["yes", "true", 1, "on"])
def test_text_is_no_boolean(appliance: RunningAppliance, flag: object) -> None:
    status, _, message = refuse(appliance.url, json.dumps({**ASKED, "stream": flag}).encode())

    assert (status, message.partition(":")[0]) == (400, "stream")


@pytest.mark.parametrize(
    ("body", "path", "method", "refused"),
    [
        (b"{", "/v1/messages", "POST", (400, "invalid_request_error")),
        (b"", "/v1/messages/count_tokens", "POST", (400, "invalid_request_error")),
        (b" " * (2**20 + 1), "/v1/messages", "POST", (413, "request_too_large")),
        (b"", "/v1/messages", "GET", (405, "not_found_error")),
        (b"", "/v1/messages/batches", "GET", (404, "not_found_error")),
    ],
)
def test_refusal_has_the_shape_of_the_dialect(
    appliance: RunningAppliance, body: bytes, path: str, method: str, refused: tuple[int, str]
) -> None:
    assert refuse(appliance.url, body, path, method)[:2] == refused


def test_unknown_model_and_broken_model_are_told(appliance: RunningAppliance) -> None:
    unknown, broken = (
        refuse(appliance.url, json.dumps({**ASKED, "model": name}).encode())
        for name in ("nobody", "broken")
    )

    assert unknown[:2] == (404, "not_found_error")
    assert broken[0] >= 500
    assert broken[1] in ("overloaded_error", "api_error")


def test_client_of_anthropic_is_answered_in_its_shape_everywhere(
    appliance: RunningAppliance,
) -> None:
    with Anthropic(base_url=appliance.url, api_key="any", max_retries=0) as claude:
        names = [model.id for model in claude.models.list()]
        with pytest.raises(NotFoundError) as unknown:
            claude.models.retrieve("nobody")
        with pytest.raises(APIStatusError) as absent:
            claude.messages.batches.list()

    assert "chat" in names
    for caught in (unknown, absent):
        body: Any = caught.value.body
        assert (body["type"], body["error"]["type"]) == ("error", "not_found_error")


def test_requests_are_recorded_under_their_dialect(appliance: RunningAppliance) -> None:
    def count(model: str, result: str) -> float:
        labels = {"model": model, "api": "messages", "result": result}
        return metric(appliance.url, "vllm_mlx_requests_total", **labels)

    answered, rejected = count("chat", "ok"), count(NO_MODEL, "rejected")
    httpx.post(f"{appliance.url}/v1/messages", json=ASKED).raise_for_status()
    refuse(appliance.url, b"{")

    wait_until(lambda: count("chat", "ok") > answered)
    wait_until(lambda: count(NO_MODEL, "rejected") > rejected)
