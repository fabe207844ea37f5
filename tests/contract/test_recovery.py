"""A worker that dies or hangs costs only the answers that somebody has begun to read."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance, wait_until
from tests.contract.http import chat_body, metric, post_chat, read_events, stream_chat

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
server: {heartbeat: 100ms}
models:
  - name: chat
    source: scripted:script.yaml
    residency: {preload: true}
    engine: {kind: batched}
"""
SCRIPT = """\
- match: late
  pieces: ["better ", "late"]
  first_delay: 5s
- match: stuck
  pieces: [x]
  first_delay: 1h
- match: seconds
  pieces: ["tick "]
  piece_delay: 20ms
  repeat: 75
- match: forever
  pieces: ["tick "]
  piece_delay: 20ms
  repeat: 100000
"""
GAUGES = ("batch_size", "requests_running", "requests_waiting")


@contextmanager
def serving(manifest: str = MANIFEST) -> Iterator[RunningAppliance]:
    with running_appliance(manifest, {"script.yaml": SCRIPT}) as running:
        yield running


@pytest.fixture
def appliance() -> Iterator[RunningAppliance]:
    with serving() as running:
        yield running


def gauges(url: str) -> tuple[float, ...]:
    return tuple(metric(url, f"vllm_mlx_{name}", model="chat") for name in GAUGES)


def wait_quiet(url: str) -> None:
    wait_until(lambda: gauges(url) == (0, 0, 0), 10.0, "nothing runs")


def find_worker(url: str) -> int | None:
    """Return the process that serves the model, if there is one."""
    (model,) = plain_http.get(f"{url}/health").json()["models"]
    pid: int | None = model["worker_pid"]
    return pid


def worker_pid(url: str) -> int:
    """Return the process that serves the model, waiting for one."""
    wait_until(lambda: find_worker(url), what="the model has a worker")
    pid = find_worker(url)
    assert pid is not None
    return pid


def end_worker(url: str, number: int = signal.SIGKILL) -> None:
    os.kill(worker_pid(url), number)


def restarts(url: str) -> float:
    return metric(url, "vllm_mlx_worker_restarts_total", model="chat")


def events_of(url: str, text: str, **fields: object) -> list[Any]:
    with stream_chat(url, text, **fields) as response:
        assert response.status_code == 200
        return read_events(response.read().decode())[0]


def text_of(events: list[Any]) -> str:
    return "".join(
        choice["delta"].get("content") or ""
        for event in events
        if event != "[DONE]"
        for choice in event.get("choices", ())
    )


def error_of(events: list[Any]) -> str:
    """Return the code of the one error event, which is the last."""
    (error,) = [event["error"] for event in events if "error" in event]
    assert events[-1] == {"error": error}
    code: str = error["code"]
    return code


def test_only_answers_that_had_begun_fail_with_their_worker(appliance: RunningAppliance) -> None:
    url = appliance.url

    with ThreadPoolExecutor(8) as pool:
        begun = [pool.submit(events_of, url, "forever") for _ in range(4)]
        unread = [pool.submit(events_of, url, "late") for _ in range(4)]
        wait_until(lambda: gauges(url) == (8, 8, 0), what="all of them run")
        wait_until(lambda: texts_begun(url) == 4)
        end_worker(url)
        results = [[each.result() for each in part] for part in (begun, unread)]

    assert [error_of(events) for events in results[0]] == ["worker_died"] * 4
    assert [text_of(events) for events in results[1]] == ["better late"] * 4
    assert all(events[-1] == "[DONE]" and not has_error(events) for events in results[1])
    assert post_chat(url, chat_body("hello")).status_code == 200
    assert restarts(url) == 1
    wait_quiet(url)
    requeued = [line for line in appliance.logs() if line["event"] == "request_requeued"]
    assert len(requeued) == 4


def texts_begun(url: str) -> float:
    return metric(url, "vllm_mlx_time_to_first_token_seconds_count", model="chat")


def has_error(events: list[Any]) -> bool:
    return any("error" in event for event in events)


def test_request_in_the_engines_queue_outlives_the_worker() -> None:
    manifest = MANIFEST.replace("batched", "simple")

    with serving(manifest) as running, ThreadPoolExecutor(2) as pool:
        first = pool.submit(events_of, running.url, "forever")
        wait_until(lambda: texts_begun(running.url) == 1)
        second = pool.submit(events_of, running.url, "hello there")
        wait_until(lambda: gauges(running.url) == (1, 1, 1), what="one waits for the other")
        end_worker(running.url)

        assert error_of(first.result()) == "worker_died"
        assert text_of(second.result()) == "hello there"
        wait_quiet(running.url)


def test_whole_answer_is_made_again_though_its_worker_had_begun(
    appliance: RunningAppliance,
) -> None:
    url = appliance.url

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(post_chat, url, chat_body("seconds"))
        wait_until(lambda: texts_begun(url) == 1)
        end_worker(url)
        body = answer.result().json()

    assert body["choices"][0]["message"]["content"] == "tick " * 75
    assert body["usage"]["completion_tokens"] == 75
    assert texts_begun(url) == 1
    wait_quiet(url)


@pytest.mark.parametrize("is_streaming", [True, False], ids=["stream", "whole"])
def test_second_death_fails_the_request(appliance: RunningAppliance, is_streaming: bool) -> None:
    url = appliance.url

    with ThreadPoolExecutor(1) as pool:
        answer: Future[httpx.Response] = pool.submit(
            post_chat, url, chat_body("stuck", stream=is_streaming)
        )
        for _ in range(2):
            wait_until(lambda: gauges(url) == (1, 1, 0), what="the request runs")
            end_worker(url)
            wait_until(lambda: gauges(url)[0] == 0, what="the worker is gone")
        response = answer.result()

    if is_streaming:
        assert error_of(read_events(response.text)[0]) == "worker_died"
    else:
        assert response.status_code == 500
        assert response.json()["error"]["code"] == "worker_died"
    wait_quiet(url)


def test_stopped_worker_is_replaced_and_nobody_notices() -> None:
    manifest = MANIFEST.replace("kind: batched", "step_timeout: 1s")

    with serving(manifest) as running, ThreadPoolExecutor(1) as pool:
        url = running.url
        answer = pool.submit(events_of, url, "late")
        wait_until(lambda: gauges(url)[1] == 1)
        stopped = worker_pid(url)
        end_worker(url, signal.SIGSTOP)

        assert text_of(answer.result()) == "better late"
        line = next(line for line in running.logs() if line["event"] == "worker_stuck")
        assert (line["model"], line["pid"]) == ("chat", stopped)
        assert worker_pid(url) != stopped
        assert restarts(url) == 1


def test_deadline_counts_on_through_a_requeue() -> None:
    manifest = MANIFEST.replace("100ms}", "100ms, limits: {request_timeout: 4s}}")

    with serving(manifest) as running, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(post_chat, running.url, chat_body("stuck"))
        wait_until(lambda: gauges(running.url)[1] == 1)
        end_worker(running.url)

        assert answer.result().status_code == 504
        assert "longer than 4 s" in answer.result().json()["error"]["message"]
        assert running.log_lines.wait_for("request_requeued") is not None
        line = running.log_lines.wait_for("request_finished")
        assert line is not None and line["duration_seconds"] >= 4.0
        wait_quiet(running.url)


def cancel(url: str, response: httpx.Response) -> str:
    """Cancel a stream and return the code of its error."""
    told = plain_http.delete(f"{url}/v1/requests/{response.headers['request-id']}")
    assert told.status_code == 200
    return error_of(read_events(response.read().decode())[0])


def test_requeued_request_can_be_cancelled_once_it_runs_again(appliance: RunningAppliance) -> None:
    url = appliance.url

    with stream_chat(url, "stuck") as response:
        wait_until(lambda: gauges(url)[1] == 1)
        end_worker(url)
        appliance.log_lines.wait_for("request_requeued")
        wait_until(lambda: gauges(url) == (1, 1, 0), what="the request runs again")

        assert cancel(url, response) == "request_cancelled"

    wait_quiet(url)
    assert post_chat(url, chat_body("hello")).status_code == 200


def test_requeued_request_can_be_cancelled_while_there_is_no_worker(
    appliance: RunningAppliance,
) -> None:
    url = appliance.url
    # So that the third worker's end is followed by a pause of seconds.
    end_worker(url)
    wait_until(lambda: restarts(url) == 1)
    end_worker(url)
    wait_until(lambda: restarts(url) == 2)
    assert worker_pid(url)

    with stream_chat(url, "stuck") as response:
        wait_until(lambda: gauges(url)[1] == 1)
        end_worker(url)
        appliance.log_lines.wait_for("request_requeued")

        assert gauges(url) == (0, 0, 1)
        assert cancel(url, response) == "request_cancelled"
        assert find_worker(url) is None, "the request did not wait"

    wait_quiet(url)


def test_client_that_leaves_while_requeued_leaves_nothing(appliance: RunningAppliance) -> None:
    url = appliance.url

    with stream_chat(url, "stuck"):
        wait_until(lambda: gauges(url)[1] == 1)
        end_worker(url)
        appliance.log_lines.wait_for("request_requeued")

    wait_quiet(url)
    assert post_chat(url, chat_body("hello")).status_code == 200
    assert gauges(url) == (0, 0, 0)


def test_requeued_stream_is_kept_alive(appliance: RunningAppliance) -> None:
    with stream_chat(appliance.url, "late") as response:
        wait_until(lambda: gauges(appliance.url)[1] == 1)
        end_worker(appliance.url)
        events, comments = read_events(response.read().decode())

    assert text_of(events) == "better late"
    assert comments >= 10
