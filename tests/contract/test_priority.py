"""Keys compete for a model by priority, and a request may only lower its key's."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from hashlib import sha256

import httpx
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance, wait_until
from tests.contract.http import chat_body, metric, post_chat

pytestmark = pytest.mark.slow


def digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


MANIFEST = f"""\
version: 1
server: {{endpoints: {{metrics: {{auth: false}}}}}}
auth_keys:
  - {{name: plain, key: {{sha256: {digest("plain")}}}}}
  - {{name: urgent, key: {{sha256: {digest("urgent")}}}, priority: 10, weight: 2}}
models:
  - {{name: first, source: "scripted:script.yaml", engine: {{kind: simple}}}}
  - {{name: raised, source: "scripted:script.yaml", engine: {{kind: simple}}}}
  - {{name: lowered, source: "scripted:script.yaml", engine: {{kind: simple}}}}
"""
SCRIPT = """\
- match: blocker
  pieces: [x]
  first_delay: 1h
"""


@pytest.fixture(scope="module")
def appliance() -> Iterator[RunningAppliance]:
    """Serve a model for each test: now and then a queue ignores priority, by its own count."""
    with running_appliance(MANIFEST, {"script.yaml": SCRIPT}) as running:
        yield running


def order_of_end(
    running: RunningAppliance, model: str, *asked: tuple[str, dict[str, int]]
) -> list[str]:
    """Let requests of these keys wait for the model in this order; say in which they ended."""

    def ask(key: str, fields: dict[str, int]) -> httpx.Response:
        body = chat_body("hello", **fields) | {"model": model}
        return post_chat(running.url, body, authorization=f"Bearer {key}")

    def has_waiting(number: int) -> bool:
        return metric(running.url, "vllm_mlx_requests_waiting", model=model) == number

    def is_blocked() -> bool:
        return metric(running.url, "vllm_mlx_requests_running", model=model) == 1

    def ended() -> list[str]:
        lines = running.logs()[num_lines:]
        return [line["key"] for line in lines if line.get("finish_reason") == "stop"]

    answers: list[Future[httpx.Response]] = []

    num_lines = len(running.logs())
    url, headers = f"{running.url}/v1/chat/completions", {"authorization": "Bearer plain"}
    with ThreadPoolExecutor(len(asked)) as pool:
        body = chat_body("blocker", stream=True) | {"model": model}
        with plain_http.stream("POST", url, json=body, headers=headers):
            wait_until(is_blocked)
            for number, (key, fields) in enumerate(asked, start=1):
                answers.append(pool.submit(ask, key, fields))
                wait_until(partial(has_waiting, number))
    assert [answer.result().status_code for answer in answers] == [200] * len(asked)
    wait_until(lambda: len(ended()) == len(asked), what="every answer is logged")
    return ended()


def test_urgent_key_goes_first(appliance: RunningAppliance) -> None:
    order = order_of_end(appliance, "first", ("plain", {}), ("urgent", {}))

    assert order == ["urgent", "plain"]


def test_request_cannot_raise_its_keys_priority(appliance: RunningAppliance) -> None:
    order = order_of_end(appliance, "raised", ("plain", {"priority": 100}), ("urgent", {}))

    assert order == ["urgent", "plain"]


def test_request_can_lower_its_keys_priority(appliance: RunningAppliance) -> None:
    order = order_of_end(appliance, "lowered", ("urgent", {"priority": -1}), ("plain", {}))

    assert order == ["plain", "urgent"]
