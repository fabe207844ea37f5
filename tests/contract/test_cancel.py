"""Cancelling: a client that leaves in any phase, and DELETE /v1/requests/{id}."""

import json
import signal
import socket
import struct
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, http_status, running_appliance, wait_until
from tests.contract.http import PATH, chat_body, metric, post_chat, read_events, stream_chat

pytestmark = pytest.mark.slow

NARROW = """\
version: 1
server: {heartbeat: 200ms}
defaults: {engine: {max_sequences: 1}, limits: {queue: 2}}
models:
  - {name: chat, source: "scripted:script.yaml", residency: {preload: true}}
"""
SCRIPT = """\
- match: stuck
  pieces: [x]
  first_delay: 1h
- match: flood
  pieces: ["0123456789012345678901234567890123456789012345678901234567890123456789012345678"]
  repeat: 10000000
- match: forever
  pieces: ["tick "]
  piece_delay: 20ms
  repeat: 100000
"""


def busy(url: str) -> tuple[float, float, float]:
    names = ("batch_size", "requests_running", "requests_waiting")
    batch, running, waiting = (metric(url, f"vllm_mlx_{name}", model="chat") for name in names)
    return batch, running, waiting


@pytest.fixture
def narrow() -> Iterator[RunningAppliance]:
    with running_appliance(NARROW, {"script.yaml": SCRIPT}) as running:
        yield running


@pytest.mark.parametrize("text", ["stuck", "forever"], ids=["prefill", "decode"])
def test_sequence_is_gone_when_its_client_leaves(appliance: RunningAppliance, text: str) -> None:
    with stream_chat(appliance.url, text) as response:
        chunks = response.iter_raw()
        next(chunks)
        wait_until(lambda: busy(appliance.url) == (1, 1, 0), what="it runs")

    wait_until(lambda: busy(appliance.url) == (0, 0, 0), 2.0, "the sequence is gone")


def test_waiting_request_is_gone_when_its_client_leaves(narrow: RunningAppliance) -> None:
    with stream_chat(narrow.url, "stuck"):
        with stream_chat(narrow.url, "forever"):
            wait_until(lambda: busy(narrow.url) == (1, 1, 1))

        wait_until(lambda: busy(narrow.url) == (1, 1, 0), 2.0, "the waiting one is gone")

    wait_until(lambda: busy(narrow.url) == (0, 0, 0), 2.0, "the running one is gone")


def test_whole_answer_is_cancelled_when_its_client_leaves(appliance: RunningAppliance) -> None:
    with pytest.raises(httpx.ReadTimeout):
        plain_http.post(appliance.url + PATH, json=chat_body("stuck"), timeout=0.3)

    wait_until(lambda: busy(appliance.url) == (0, 0, 0), 2.0, "the sequence is gone")


def test_full_queue_is_429_at_once(narrow: RunningAppliance) -> None:
    with (
        stream_chat(narrow.url, "stuck"),
        stream_chat(narrow.url, "stuck"),
        stream_chat(narrow.url, "stuck"),
    ):
        for stream in (True, False):
            response = post_chat(narrow.url, chat_body("stuck", stream=stream))
            assert response.status_code == 429
            assert response.json()["error"]["code"] == "queue_full"
            assert int(response.headers["retry-after"]) >= 1

    wait_until(lambda: busy(narrow.url) == (0, 0, 0))
    with stream_chat(narrow.url, "forever", max_tokens=1) as response:
        assert response.status_code == 200


def test_leaving_does_not_touch_the_others(appliance: RunningAppliance) -> None:
    with stream_chat(appliance.url, "forever", max_tokens=40) as stays:
        for _ in range(10):
            with stream_chat(appliance.url, "forever") as leaves:
                chunks = leaves.iter_raw()
                next(chunks)
        events, _ = read_events(stays.read().decode())

    text = "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1])
    assert text == "tick " * 40


def test_delete_cancels_a_stream_and_tells_the_truth(appliance: RunningAppliance) -> None:
    with stream_chat(appliance.url, "stuck") as response:
        request_id = response.headers["request-id"]
        told = plain_http.delete(f"{appliance.url}/v1/requests/{request_id}")
        events, _ = read_events(response.read().decode())
    again = plain_http.delete(f"{appliance.url}/v1/requests/{request_id}")

    assert told.json()["stage"] == "prefill"
    assert events[-1]["error"]["code"] == "request_cancelled"
    assert again.status_code == 404
    assert busy(appliance.url)[1:] == (0, 0)


def test_delete_knows_only_our_own_ids(appliance: RunningAppliance) -> None:
    body = chat_body("stuck", stream=True)
    headers = {"x-request-id": "theirs"}

    with plain_http.stream("POST", appliance.url + PATH, json=body, headers=headers) as response:
        by_theirs = plain_http.delete(f"{appliance.url}/v1/requests/theirs")
        by_completion = plain_http.delete(
            f"{appliance.url}/v1/requests/chatcmpl-{response.headers['request-id']}"
        )

    assert by_theirs.status_code == 404
    assert by_completion.status_code == 200


def test_abrupt_ends_at_any_moment_leave_nothing_behind(appliance: RunningAppliance) -> None:
    parts = urlsplit(appliance.url)
    assert parts.hostname and parts.port
    body = json.dumps(chat_body("many", stream=True)).encode()
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    request = head + body
    at_once = struct.pack("ii", 1, 0)  # linger for 0 s: closing sends RST, not FIN

    for number in range(100):
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            if number % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            connection.sendall(request[: len(request) * (number + 1) // 60])
            if number % 3 == 0 and number > 60:
                connection.recv(1000)

    wait_until(lambda: busy(appliance.url) == (0, 0, 0), 10.0, "every sequence is gone")
    assert post_chat(appliance.url, chat_body("capital")).status_code == 200
    assert "Traceback" not in appliance.errors()


def stalled_stream(url: str) -> socket.socket:
    """Ask for an endless answer and never read it; its buffers are as small as can be."""
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    body = json.dumps(chat_body("flood", stream=True)).encode()
    # The connection ends with the answer, which is to be read to its end.
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((parts.hostname, parts.port))
    connection.sendall(request)
    return connection


@pytest.mark.parametrize("limits", ["write_timeout: 500ms", "request_timeout: 1s"])
def test_client_that_reads_nothing_is_cut_off(limits: str) -> None:
    manifest = NARROW.replace("heartbeat: 200ms", f"heartbeat: 200ms, limits: {{{limits}}}")

    with running_appliance(manifest, {"script.yaml": SCRIPT}) as running:
        with stalled_stream(running.url):
            wait_until(lambda: busy(running.url)[0] == 1)
            wait_until(lambda: busy(running.url) == (0, 0, 0), 10.0, "the stalled one is cut")
        with stream_chat(running.url, "forever", max_tokens=1) as response:
            assert response.status_code == 200


@pytest.mark.timeout(150)
def test_slow_reader_still_gets_the_error_event() -> None:
    manifest = NARROW.replace("heartbeat: 200ms", "limits: {request_timeout: 1s}")

    with (
        running_appliance(manifest, {"script.yaml": SCRIPT}) as running,
        stalled_stream(running.url) as connection,
    ):
        got = b""
        while chunk := connection.recv(16384):
            got = (got + chunk)[-4096:]

    assert got.endswith(b"\r\n0\r\n\r\n"), "the stream was torn"
    assert b'data: {"error":' in got


def test_second_signal_ends_a_drain_that_a_stalled_client_holds() -> None:
    with (
        running_appliance(NARROW, {"script.yaml": SCRIPT}) as running,
        stalled_stream(running.url),
    ):
        wait_until(lambda: busy(running.url)[0] == 1)
        for _ in range(2):
            running.process.send_signal(signal.SIGINT)
            wait_until(lambda: http_status(f"{running.url}/health/ready") != 200)

        assert running.process.wait(8) == 0


def test_deadline_ends_a_request() -> None:
    manifest = NARROW.replace("{heartbeat: 200ms}", "{limits: {request_timeout: 400ms}}")

    with running_appliance(manifest, {"script.yaml": SCRIPT}) as running:
        whole = post_chat(running.url, chat_body("stuck"))
        with stream_chat(running.url, "forever") as response:
            events, _ = read_events(response.read().decode())

        assert whole.status_code == 504
        assert events[-1]["error"]["code"] == "deadline_exceeded"
        wait_until(lambda: busy(running.url) == (0, 0, 0), 2.0, "both are gone")
