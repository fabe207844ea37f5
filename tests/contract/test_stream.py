"""Streaming discipline: headers, heartbeats, ids, framing, slow readers."""

import json
import re
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, wait_until
from tests.contract.http import PATH, chat_body, metric, post_chat, read_events, stream_chat


def log_lines(appliance: RunningAppliance, request_id: str) -> list[dict[str, Any]]:
    return [line for line in appliance.logs() if line.get("request_id") == request_id]


def test_headers_come_before_the_first_text(appliance: RunningAppliance) -> None:
    started = time.monotonic()

    with stream_chat(appliance.url, "prefill") as response:
        headers_after = time.monotonic() - started
        events, comments = read_events(response.read().decode())

    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers_after < 1.0 < time.monotonic() - started
    assert events[1]["choices"][0]["delta"]["content"] == "late"
    assert comments >= 4, "a heartbeat every 200 ms of silence"


def test_busy_stream_has_no_heartbeats(appliance: RunningAppliance) -> None:
    with stream_chat(appliance.url, "many", max_tokens=1000) as response:
        events, comments = read_events(response.read().decode())

    assert comments == 0
    assert len(events) == 1 + 1000 + 1 + 1


def test_pieces_arrive_as_they_are_made(appliance: RunningAppliance) -> None:
    times = []

    with stream_chat(appliance.url, "forever", max_tokens=20) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                times.append(time.monotonic())

    assert times[-1] - times[0] > 0.2, "the stream came in one burst"


def test_text_with_line_ends_stays_one_event(appliance: RunningAppliance) -> None:
    with stream_chat(appliance.url, "unicode") as response:
        events, _ = read_events(response.read().decode())

    text = "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1])
    assert text == "a\u2028b\r\n👋é\n\ndata: x"


def test_request_ids_go_out_and_come_back(appliance: RunningAppliance) -> None:
    ours = post_chat(appliance.url, chat_body("capital"))
    echoed = post_chat(appliance.url, chat_body("capital"), x_request_id="client-7")

    assert ours.headers["x-request-id"] == ours.headers["request-id"]
    assert re.fullmatch("[0-9a-f]{32}", ours.headers["request-id"])
    assert ours.json()["id"] == f"chatcmpl-{ours.headers['request-id']}"
    assert echoed.headers["x-request-id"] == "client-7"
    assert echoed.headers["request-id"] != ours.headers["request-id"]


def test_each_request_leaves_one_line_without_its_text(appliance: RunningAppliance) -> None:
    response = post_chat(appliance.url, chat_body("capital xyzzy"), x_request_id="line-1")

    request_id = response.headers["request-id"]
    wait_until(lambda: log_lines(appliance, request_id))
    lines = log_lines(appliance, request_id)
    assert [line["event"] for line in lines] == ["request_finished"]
    assert lines[0]["client_request_id"] == "line-1"
    assert (lines[0]["prompt_tokens"], lines[0]["completion_tokens"]) == (2, 4)
    assert lines[0]["finish_reason"] == "stop" and lines[0]["error"] is None
    assert "xyzzy" not in json.dumps(appliance.logs())


def test_slow_reader_is_never_taken_for_gone(appliance: RunningAppliance) -> None:
    parts = urlsplit(appliance.url)
    assert parts.hostname and parts.port
    body = json.dumps(chat_body("forever", stream=True, max_tokens=30)).encode()
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(head + body)
        got = b""
        while b"[DONE]" not in got:
            chunk = connection.recv(200)
            assert chunk, "the stream was cut"
            got += chunk

    assert b'"finish_reason":"length"' in got


def test_metrics_count_what_was_done(appliance: RunningAppliance) -> None:
    names = ["prompt_tokens_total", "completion_tokens_total", "request_seconds_count"]
    names += ["queue_seconds_count", "time_to_first_token_seconds_count"]
    before = [metric(appliance.url, f"vllm_mlx_{name}", model="chat") for name in names]

    with stream_chat(appliance.url, "capital one two") as response:
        response.read()

    after = [metric(appliance.url, f"vllm_mlx_{name}", model="chat") for name in names]
    assert [new - old for new, old in zip(after, before, strict=True)] == [3, 4, 1, 1, 1]


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"model": "none"}, 404), ({"max_tokens": 5000}, 400), ({"stop": 5}, 400)],
)
def test_refused_request_is_counted_and_logged_once(
    appliance: RunningAppliance, fields: dict[str, object], status: int
) -> None:
    def total() -> float:
        name, labels = "vllm_mlx_requests_total", {"api": "chat", "result": "rejected"}
        return sum(metric(appliance.url, name, model=each, **labels) for each in ("chat", "none"))

    before = total()
    response = post_chat(appliance.url, chat_body("x") | fields)

    assert response.status_code == status
    wait_until(lambda: total() == before + 1)
    request_id = response.headers["request-id"]
    assert len(log_lines(appliance, request_id)) == 1


@pytest.mark.parametrize(
    ("text", "result"), [("capital", "ok"), ("fail later", "error"), ("stop me", "cancelled")]
)
def test_requests_are_counted_by_result(
    appliance: RunningAppliance, text: str, result: str
) -> None:
    def count() -> float:
        return metric(
            appliance.url, "vllm_mlx_requests_total", model="chat", api="chat", result=result
        )

    before = count()

    if result == "cancelled":
        with stream_chat(appliance.url, "stuck"):
            pass
    else:
        with stream_chat(appliance.url, text) as response:
            response.read()

    wait_until(lambda: count() == before + 1)


def test_every_series_starts_at_zero(appliance: RunningAppliance) -> None:
    text = plain_http.get(f"{appliance.url}/metrics").text

    assert 'vllm_mlx_worker_restarts_total{model="chat"} 0.0' in text
    assert 'vllm_mlx_model_phase{model="broken",phase="ready"} 0.0' in text
    assert 'vllm_mlx_requests_total{api="chat",model="broken",result="ok"} 0.0' in text
