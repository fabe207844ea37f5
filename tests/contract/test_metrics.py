"""The numbers at /metrics say what happened."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass

import httpx
import pytest

from tests.appliance_server import running_appliance, wait_until
from tests.contract.http import chat_body, metric, post_chat, stream_chat

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
models:
  - {name: answers, source: "scripted:script.yaml"}
  - {name: failures, source: "scripted:script.yaml"}
  - {name: queue, source: "scripted:script.yaml", engine: {kind: simple}}
  - {name: leavers, source: "scripted:script.yaml", engine: {kind: simple}}
"""
SCRIPT = """\
- match: five
  pieces: ["tick "]
  piece_delay: 50ms
  repeat: 5
- match: stuck
  pieces: [x]
  first_delay: 1h
- match: fails
  pieces: [x]
  fail_at: 0
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve a model for each test, so that what it counts begins at zero."""
    with running_appliance(MANIFEST, {"script.yaml": SCRIPT}) as running:
        yield running.url


@dataclass(frozen=True)
class Model:
    """A model of the appliance, and its numbers."""

    url: str
    name: str

    def ask(self, text: str) -> int:
        return post_chat(self.url, chat_body(text) | {"model": self.name}).status_code

    def stream(self, text: str) -> AbstractContextManager[httpx.Response]:
        return stream_chat(self.url, text, model=self.name)

    def value(self, name: str, **labels: str) -> float:
        return metric(self.url, f"vllm_mlx_{name}", model=self.name, **labels)

    def busy(self) -> tuple[float, float, float]:
        names = ("batch_size", "requests_running", "requests_waiting")
        batch, running, waiting = (self.value(name) for name in names)
        return batch, running, waiting


def test_histograms_count_each_answer_and_its_texts(url: str) -> None:
    model = Model(url, "answers")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: model.ask("five"), range(4)))

    value = model.value
    for name in ("queue_seconds", "time_to_first_token_seconds", "request_seconds"):
        assert value(f"{name}_count") == 4, name
    assert 4 <= value("inter_token_seconds_count") <= 16
    assert 0.1 <= value("inter_token_seconds_sum") / 4 <= value("request_seconds_sum") / 4
    assert value("queue_seconds_sum") <= value("time_to_first_token_seconds_sum")
    assert value("engine_step_seconds_count", phase="decode") >= 5
    assert value("completion_tokens_total") == 20
    assert model.busy() == (0, 0, 0)


def test_waiting_lasts_until_the_engine_begins(url: str) -> None:
    model = Model(url, "queue")

    with ThreadPoolExecutor(1) as pool:
        with model.stream("stuck"):
            wait_until(lambda: model.busy() == (1, 1, 0))
            second = pool.submit(model.ask, "five")
            wait_until(lambda: model.busy() == (1, 1, 1))
            assert model.value("queue_seconds_count") == 0

        assert second.result() == 200
        assert model.value("queue_seconds_count") == 2
        assert model.busy() == (0, 0, 0)


def test_request_that_never_began_has_no_queue_time(url: str) -> None:
    model = Model(url, "leavers")

    with model.stream("stuck"):
        wait_until(lambda: model.busy() == (1, 1, 0))
        with model.stream("five"):
            wait_until(lambda: model.busy() == (1, 1, 1))
        wait_until(lambda: model.busy() == (1, 1, 0))
    wait_until(lambda: model.busy() == (0, 0, 0))

    assert model.value("queue_seconds_count") == 1
    assert model.value("requests_total", result="cancelled") == 2


def test_gauges_are_zero_after_failures(url: str) -> None:
    model = Model(url, "failures")

    statuses = [model.ask(text) for text in ("fails", "five", "fails")]

    assert statuses == [500, 200, 500]
    assert model.busy() == (0, 0, 0)
    assert model.value("requests_total", result="error") == 2
