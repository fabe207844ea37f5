"""Life and death: killed workers, killed gateways, drains, second starts."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Semaphore
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, http_status, running_appliance, wait_until
from tests.contract.http import chat_body, metric, post_chat, read_events, stream_chat

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
server: {drain: 20s}
models:
  - {name: chat, source: "scripted:script.yaml", residency: {preload: true}}
  - {name: other, source: "scripted:script.yaml", residency: {preload: true}}
"""
SCRIPT = """\
- match: forever
  pieces: ["tick "]
  piece_delay: 20ms
  repeat: 100000
- match: seconds
  pieces: ["tick "]
  piece_delay: 20ms
  repeat: 60
"""
FILES = {"script.yaml": SCRIPT}


@pytest.fixture
def two_models() -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, FILES) as running:
        yield running


def children(running: RunningAppliance) -> list[psutil.Process]:
    return psutil.Process(running.process.pid).children(recursive=True)


def kill_worker(running: RunningAppliance, model: str) -> None:
    """Kill a model's worker, which is the one that /health names."""
    pid = model_health(running.url, model)["worker_pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)


def model_health(url: str, name: str) -> dict[str, object]:
    models = plain_http.get(f"{url}/health").json()["models"]
    found: dict[str, object] = next(model for model in models if model["name"] == name)
    return found


def has_restarted(url: str, times: int) -> bool:
    return model_health(url, "chat")["restarts"] == times


def test_killed_worker_fails_its_stream_alone_and_comes_back(
    two_models: RunningAppliance,
) -> None:
    url = two_models.url
    other_body = chat_body("seconds", stream=True) | {"model": "other"}

    with plain_http.stream("POST", f"{url}/v1/chat/completions", json=other_body) as other:
        with stream_chat(url, "forever") as response:
            chunks = response.iter_raw()
            next(chunks)
            kill_worker(two_models, "chat")
            raw = b"".join(chunks)
        other_events, _ = read_events(other.read().decode())

    assert b'"code":"worker_died"' in raw
    assert other_events[-1] == "[DONE]"
    wait_until(lambda: model_health(url, "chat")["phase"] == "ready")
    assert model_health(url, "chat")["restarts"] == 1
    assert model_health(url, "other")["restarts"] == 0
    assert metric(url, "vllm_mlx_worker_restarts_total", model="chat") == 1
    assert post_chat(url, chat_body("hello")).status_code == 200


def test_request_during_a_restart_waits_for_it(two_models: RunningAppliance) -> None:
    kill_worker(two_models, "chat")
    wait_until(lambda: model_health(two_models.url, "chat")["restarts"] == 1)

    assert post_chat(two_models.url, chat_body("hello")).status_code == 200


def test_worker_that_keeps_dying_is_restarted_with_back_off(
    two_models: RunningAppliance,
) -> None:
    url = two_models.url
    for restarts in (1, 2):
        wait_until(lambda: model_health(url, "chat")["phase"] == "ready")
        kill_worker(two_models, "chat")
        wait_until(partial(has_restarted, url, restarts))

    health, refused = model_health(url, "chat"), post_chat(url, chat_body("hello"))

    assert health["phase"] == "failed" and "ended unexpectedly" in str(health["reason"])
    assert refused.status_code == 503 and int(refused.headers["retry-after"]) >= 1
    assert http_status(f"{url}/health/ready") == 503
    wait_until(lambda: model_health(url, "chat")["phase"] == "ready")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_signal_lets_streams_finish_and_leaves_nothing(
    two_models: RunningAppliance, number: signal.Signals
) -> None:
    url = two_models.url

    def run_stream(index: int) -> str:
        with stream_chat(url, f"seconds {index}") as response:
            started.release()
            return response.read().decode()

    started = Semaphore(0)
    with ThreadPoolExecutor(8) as pool:
        streams = [pool.submit(run_stream, index) for index in range(8)]
        for _ in streams:
            assert started.acquire(timeout=10)
        everybody = children(two_models)
        two_models.process.send_signal(number)
        wait_until(lambda: http_status(f"{url}/health/ready") == 503)
        refused = post_chat(url, chat_body("late"))
        bodies = [stream.result() for stream in streams]

    assert refused.status_code == 503
    assert refused.headers["connection"] == "close"
    assert int(refused.headers["retry-after"]) >= 1
    for body in bodies:
        events, _ = read_events(body)
        assert events[-1] == "[DONE]" and len(events) == 63
    assert two_models.process.wait(10) == 0
    assert len(everybody) == 3
    assert not [each for each in everybody if each.is_running()]


def test_drain_limit_ends_streams_with_an_error() -> None:
    manifest = MANIFEST.replace("drain: 20s", "drain: 500ms")

    with running_appliance(manifest, FILES) as running:
        with stream_chat(running.url, "forever") as response:
            started = time.monotonic()
            running.process.send_signal(signal.SIGTERM)
            events, _ = read_events(response.read().decode())

        assert events[-1]["error"]["code"] == "shutting_down"
        assert running.process.wait(10) == 0
        assert time.monotonic() - started < 8


def test_second_signal_cuts_the_drain(two_models: RunningAppliance) -> None:
    with stream_chat(two_models.url, "forever") as response:
        two_models.process.send_signal(signal.SIGINT)
        wait_until(lambda: http_status(f"{two_models.url}/health/ready") == 503)
        two_models.process.send_signal(signal.SIGINT)
        events, _ = read_events(response.read().decode())

    assert events[-1]["error"]["code"] == "shutting_down"
    assert two_models.process.wait(10) == 0


def test_idle_connections_do_not_hold_a_shutdown(two_models: RunningAppliance) -> None:
    parts = urlsplit(two_models.url)
    assert parts.hostname and parts.port
    with socket.create_connection((parts.hostname, parts.port)) as half_sent:
        half_sent.sendall(b"GET /health/live HTTP/1.1\r\n")
        with httpx.Client() as keep_alive:
            keep_alive.get(f"{two_models.url}/health/live")
            started = time.monotonic()

            two_models.process.send_signal(signal.SIGTERM)

            assert two_models.process.wait(10) == 0
            assert time.monotonic() - started < 6


def test_nothing_outlives_a_killed_gateway(two_models: RunningAppliance) -> None:
    everybody = children(two_models)
    assert len(everybody) == 3

    with stream_chat(two_models.url, "forever") as response:
        chunks = response.iter_raw()
        next(chunks)
        two_models.process.kill()

    _, alive = psutil.wait_procs(everybody, timeout=5)
    assert not alive


@pytest.mark.parametrize("shared", ["port", "state"])
def test_second_start_fails_and_the_first_goes_on(
    two_models: RunningAppliance, shared: str, tmp_path: Path
) -> None:
    port = str(urlsplit(two_models.url).port) if shared == "port" else "0"
    state = two_models.state_dir if shared == "state" else tmp_path / "state"
    command = [sys.executable, "-m", "appliance", "serve", "-c", str(two_models.manifest)]

    second = subprocess.run(
        [*command, "--port", port, "--state-dir", str(state)],
        capture_output=True,
        timeout=20,
        check=False,
    )

    assert second.returncode == 1
    assert second.stderr.count(b"\n") == 1 and b"in use" in second.stderr
    assert post_chat(two_models.url, chat_body("hello")).status_code == 200
