"""Cancelling: a client that leaves in any phase, and DELETE /v1/requests/{id}."""

from collections.abc import Iterator

import httpx
import pytest

from tests.appliance_server import RunningAppliance, running_appliance, wait_until
from tests.contract.http import PATH, chat_body, metric, post_chat, read_events, stream_chat

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
        assert busy(appliance.url) == (1, 1, 0)

    wait_until(lambda: busy(appliance.url) == (0, 0, 0), 2.0, "the sequence is gone")


def test_waiting_request_is_gone_when_its_client_leaves(narrow: RunningAppliance) -> None:
    with stream_chat(narrow.url, "stuck"):
        with stream_chat(narrow.url, "forever"):
            wait_until(lambda: busy(narrow.url) == (1, 1, 1))

        wait_until(lambda: busy(narrow.url) == (1, 1, 0), 2.0, "the waiting one is gone")

    wait_until(lambda: busy(narrow.url) == (0, 0, 0), 2.0, "the running one is gone")


def test_whole_answer_is_cancelled_when_its_client_leaves(appliance: RunningAppliance) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(appliance.url + PATH, json=chat_body("stuck"), timeout=0.3)

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
        told = httpx.delete(f"{appliance.url}/v1/requests/{request_id}")
        events, _ = read_events(response.read().decode())
    again = httpx.delete(f"{appliance.url}/v1/requests/{request_id}")

    assert told.json()["stage"] == "prefill"
    assert events[-1]["error"]["code"] == "request_cancelled"
    assert again.status_code == 404
    assert busy(appliance.url)[1:] == (0, 0)


def test_delete_knows_only_our_own_ids(appliance: RunningAppliance) -> None:
    body = chat_body("stuck", stream=True)
    headers = {"x-request-id": "theirs"}

    with httpx.stream("POST", appliance.url + PATH, json=body, headers=headers) as response:
        by_theirs = httpx.delete(f"{appliance.url}/v1/requests/theirs")
        by_completion = httpx.delete(
            f"{appliance.url}/v1/requests/chatcmpl-{response.headers['request-id']}"
        )

    assert by_theirs.status_code == 404
    assert by_completion.status_code == 200


def test_deadline_ends_a_request() -> None:
    manifest = NARROW.replace("{heartbeat: 200ms}", "{limits: {request_timeout: 400ms}}")

    with running_appliance(manifest, {"script.yaml": SCRIPT}) as running:
        whole = post_chat(running.url, chat_body("stuck"))
        with stream_chat(running.url, "forever") as response:
            events, _ = read_events(response.read().decode())

        assert whole.status_code == 504
        assert events[-1]["error"]["code"] == "deadline_exceeded"
        wait_until(lambda: busy(running.url) == (0, 0, 0), 2.0, "both are gone")
