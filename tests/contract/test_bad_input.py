"""Bad input: the right status, the right shape, the field by name, and the next request works."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import plain_http
from tests.appliance_server import RunningAppliance, wait_until
from tests.contract.http import PATH, chat_body, metric, post_chat


def check_error(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", 5),
        ("model", None),
        ("messages", "hello"),
        ("messages", []),
        ("messages", [{"role": "robot", "content": "x"}]),
        ("messages", [{"role": "user", "content": 1}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url"}]}]),
        ("messages", [{"role": "user", "content": [{"type": "text"}]}]),
        ("messages", [{"content": "x"}]),
        ("stream", "true"),
        ("stream", 1),
        ("stream_options", {"include_usage": "yes"}),
        ("stream_options", {"include_usage": True}),
        ("max_tokens", "5"),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_tokens", 2.5),
        ("max_completion_tokens", 0),
        ("temperature", "hot"),
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("top_p", 0),
        ("top_p", 1.1),
        ("top_k", -2),
        ("top_k", 1.5),
        ("min_p", 1.5),
        ("seed", "x"),
        ("seed", 2**70),
        ("stop", 5),
        ("stop", [1]),
        ("ignore_eos", "no"),
        ("chat_template_kwargs", []),
    ],
)
def test_wrong_field_is_400_and_named(
    appliance: RunningAppliance, field: str, value: object
) -> None:
    error = check_error(post_chat(appliance.url, chat_body("x") | {field: value}), 400)

    assert error["type"] == "invalid_request_error"
    assert field in error["message"] or (error["param"] or "").startswith(field)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"\xff\xfe{}", id="not UTF-8"),
        pytest.param(b'{"model":"chat"}', id="no messages"),
        pytest.param(b'{"messages":[{"role":"user","content":"x"}]}', id="no model"),
        pytest.param(b'{"model":"chat","messages":' + b"[" * 100_000, id="deep"),
        pytest.param(b'{"model":"chat","user":' + b'{"a":' * 50_000, id="deep objects"),
        pytest.param(b'{"model":"chat","messages":[],"\xff":1}', id="a key that is not UTF-8"),
        pytest.param(b"{" + b'"":0,' * 200_001, id="too many fields"),
    ],
)
def test_broken_body_is_400(appliance: RunningAppliance, body: bytes) -> None:
    check_error(plain_http.post(appliance.url + PATH, content=body), 400)

    assert post_chat(appliance.url, chat_body("capital")).status_code == 200


def test_huge_body_is_413(appliance: RunningAppliance) -> None:
    error = check_error(post_chat(appliance.url, chat_body("x" * 2**20)), 413)

    assert error["code"] == "payload_too_large"
    assert "1048576" in error["message"]


def test_huge_chunked_body_is_413(appliance: RunningAppliance) -> None:
    chunks = (b"x" * 2**16 for _ in range(64))

    response = plain_http.post(appliance.url + PATH, content=chunks)

    check_error(response, 413)
    assert response.headers["connection"] == "close"


def test_body_that_never_comes_is_408(appliance: RunningAppliance) -> None:
    parts = urlsplit(appliance.url)
    assert parts.hostname and parts.port
    head = f"POST {PATH} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-length: 100\r\n\r\n"

    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(head.encode() + b'{"model"')
        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"\r\nconnection: close\r\n" in answer


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/nothing", 404), ("GET", "/", 404), ("GET", PATH, 405), ("PUT", PATH, 405)],
)
def test_wrong_path_or_method_has_the_right_shape(
    appliance: RunningAppliance, method: str, path: str, status: int
) -> None:
    error = check_error(httpx.request(method, appliance.url + path), status)

    assert path in error["message"]


def test_head_is_served_without_a_body(appliance: RunningAppliance) -> None:
    for path in ("/health/live", "/v1/models"):
        response = httpx.head(appliance.url + path)

        assert response.status_code == 200
        assert response.content == b""


def test_client_that_leaves_during_its_body_is_no_error(appliance: RunningAppliance) -> None:
    parts = urlsplit(appliance.url)
    assert parts.hostname and parts.port
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\nx-request-id: left\r\ncontent-length: 99\r\n\r\n"

    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(head.encode() + b"{")

    assert post_chat(appliance.url, chat_body("capital")).status_code == 200
    assert not [each for each in appliance.logs() if each.get("client_request_id") == "left"]


def test_double_and_trailing_slashes_are_forgiven(appliance: RunningAppliance) -> None:
    for path in ("//v1/models", "/v1/models/", "/v1//models"):
        assert plain_http.get(appliance.url + path).status_code == 200


@pytest.mark.parametrize("path", ["/models", "/models/chat", "//models/"])
def test_paths_without_v1_are_forgiven(appliance: RunningAppliance, path: str) -> None:
    assert (
        plain_http.get(appliance.url + path).json()
        == plain_http.get(f"{appliance.url}/v1{path}").json()
    )


def test_request_is_cancelled_without_v1_too(appliance: RunningAppliance) -> None:
    error = check_error(plain_http.delete(f"{appliance.url}/requests/chatcmpl-1"), 404)

    assert error["code"] == "request_not_found"


def test_endpoint_without_v1_is_counted_like_any(appliance: RunningAppliance) -> None:
    url = appliance.url + PATH.removeprefix("/v1")

    answered = plain_http.post(url, json=chat_body("capital"), headers={"authorization": "Bearer"})
    refused = plain_http.post(url, json={})

    assert (answered.status_code, refused.status_code) == (200, 400)

    def is_told() -> bool:
        line = appliance.logs()[-1]
        return (line["event"], line.get("api")) == ("request_refused", "chat")

    wait_until(is_told, what="the refusal is in the log")


def test_path_with_v1_twice_is_404_with_the_right_one(appliance: RunningAppliance) -> None:
    error = check_error(plain_http.get(f"{appliance.url}/v1/v1/models"), 404)

    assert "Did you mean /v1/models?" in error["message"]


def test_unknown_fields_are_tolerated_and_counted(appliance: RunningAppliance) -> None:
    before = metric(appliance.url, "vllm_mlx_unknown_fields_total", api="chat")

    response = post_chat(appliance.url, chat_body("capital", num_ctx=5, options={}))

    assert response.status_code == 200
    assert metric(appliance.url, "vllm_mlx_unknown_fields_total", api="chat") == before + 2


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
_fields = st.sampled_from(
    ["messages", "stop", "stream", "stream_options", "tools", "seed", "top_k", "n", "user"]
)


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(_fields, _values, max_size=4))
def test_no_body_is_a_server_error(appliance: RunningAppliance, fields: dict[str, Any]) -> None:
    body = json.dumps(chat_body("capital") | fields, allow_nan=False)

    response = plain_http.post(appliance.url + PATH, content=body)

    assert response.status_code in (200, 400), response.text
