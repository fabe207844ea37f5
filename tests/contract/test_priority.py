"""Keys compete for a model by priority, and a request may only lower its key's."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from hashlib import sha256

import httpx
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance, wait_until
from tests.contract.http import PATH, chat_body

pytestmark = pytest.mark.slow


def digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


MANIFEST = f"""\
version: 1
server: {{heartbeat: 200ms}}
auth_keys:
  - {{name: ops, key: {{sha256: {digest("ops")}}}, roles: [admin]}}
  - {{name: plain, key: {{sha256: {digest("plain")}}}}}
  - {{name: urgent, key: {{sha256: {digest("urgent")}}}, priority: 10, weight: 2}}
models:
  - {{name: first, source: "scripted:script.yaml", engine: {{kind: simple}}}}
  - {{name: raised, source: "scripted:script.yaml", engine: {{kind: simple}}}}
  - {{name: lowered, source: "scripted:script.yaml", engine: {{kind: simple}}}}
"""
SCRIPT = """\
- match: hello
  pieces: ["tick "]
  piece_delay: 20ms
  repeat: 100000
"""
WITH_THE_ENGINE = ("queue", "prefill")


@pytest.fixture(scope="module")
def appliance() -> Iterator[RunningAppliance]:
    """Serve a model for each test: now and then a queue ignores priority, by its own count."""
    with running_appliance(MANIFEST, {"script.yaml": SCRIPT}) as running:
        yield running


def state(running: RunningAppliance, response: httpx.Response) -> str | None:
    """Return what the request behind a response waits for."""
    listed = plain_http.get(
        f"{running.url}/admin/v1/requests", headers={"authorization": "Bearer ops"}
    ).json()["requests"]
    own = response.headers["request-id"]
    return next((each["state"] for each in listed if each["id"] == own), None)


def first_served(
    running: RunningAppliance, model: str, *asked: tuple[str, dict[str, int]]
) -> str | None:
    """Let requests of these keys wait for the model in this order; return whose comes first."""

    def ask(key: str, fields: dict[str, int]) -> AbstractContextManager[httpx.Response]:
        body = chat_body("hello", stream=True, **fields) | {"model": model}
        headers = {"authorization": f"Bearer {key}"}
        return plain_http.stream("POST", running.url + PATH, json=body, headers=headers, timeout=30)

    def served() -> str | None:
        return next((key for key in waiting if state(running, waiting[key]) == "decode"), None)

    waiting: dict[str, httpx.Response] = {}
    with ExitStack() as stack:
        with ask("plain", {}) as blocker:
            wait_until(lambda: state(running, blocker) == "decode")
            for key, fields in asked:
                waiting[key] = stack.enter_context(ask(key, fields))
                wait_until(partial(_is_with_the_engine, running, waiting[key]))
            assert served() is None
        wait_until(served)
        return served()


def _is_with_the_engine(running: RunningAppliance, response: httpx.Response) -> bool:
    return state(running, response) in WITH_THE_ENGINE


def test_urgent_key_goes_first(appliance: RunningAppliance) -> None:
    assert first_served(appliance, "first", ("plain", {}), ("urgent", {})) == "urgent"


def test_request_cannot_raise_its_keys_priority(appliance: RunningAppliance) -> None:
    asked = [("plain", {"priority": 100}), ("urgent", {})]

    assert first_served(appliance, "raised", *asked) == "urgent"


def test_request_can_lower_its_keys_priority(appliance: RunningAppliance) -> None:
    asked = [("urgent", {"priority": -1}), ("plain", {})]

    assert first_served(appliance, "lowered", *asked) == "plain"
