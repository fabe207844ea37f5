"""Whether to think is what the request says, else its key, else the model, else the template."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import httpx
import pytest

from tests.appliance_server import RunningAppliance, running_appliance
from tests.chat.tiny import CHATML, write_model
from tests.contract.thinker import SECRET, write_thinker

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
auth_keys:
  - {{name: silent, key: {{sha256: {silent}}}}}
  - {{name: quick, key: {{sha256: {quick}}}, thinking: {{enabled: false}}}}
  - {{name: deep, key: {{sha256: {deep}}}, thinking: {{effort: high}}}}
models:
  - {{name: tiny, source: "path:{model}"}}
  - {{name: fast, like: tiny, chat: {{template_kwargs: {{enable_thinking: false}}}}}}
  - {{name: bounded, like: tiny, chat: {{thinking_budget: 0}}}}
"""
TEMPLATE = CHATML + "{{ thinking | default('DEFAULT') }}"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    model = write_model(tmp_path_factory.mktemp("thinking"), TEMPLATE)
    keys = {name: sha256(name.encode()).hexdigest() for name in ("silent", "quick", "deep")}
    with running_appliance(MANIFEST.format(model=model, **keys), {}) as running:
        yield running


def said(appliance: RunningAppliance, key: str, model: str, **fields: object) -> str:
    """Return what the model's prompt says of the switch."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]} | fields
    with httpx.Client(base_url=appliance.url, headers={"x-api-key": key}, timeout=60) as http:
        answer = http.post("/tokenize", json=body)
        assert answer.status_code == 200, answer.text
        tokens = answer.json()["tokens"]
        text: str = http.post("/detokenize", json={"model": model, "tokens": tokens}).json()[
            "prompt"
        ]
    return text.rpartition("assistant\n")[2]


@pytest.mark.parametrize(
    ("key", "model", "values", "expected"),
    [
        ("silent", "tiny", {}, "DEFAULT"),
        ("silent", "tiny", {"enable_thinking": False}, "False"),
        ("silent", "tiny", {"thinking": False}, "False"),
        ("silent", "fast", {}, "False"),
        ("silent", "fast", {"enable_thinking": True}, "True"),
        ("silent", "bounded", {}, "False"),
        ("quick", "tiny", {}, "False"),
        ("quick", "tiny", {"thinking": True}, "True"),
        ("deep", "tiny", {}, "True"),
        ("deep", "fast", {}, "True"),
        ("deep", "fast", {"enable_thinking": False}, "False"),
    ],
)
def test_nearest_wish_about_thoughts_counts(
    appliance: RunningAppliance, key: str, model: str, values: dict[str, Any], expected: str
) -> None:
    assert said(appliance, key, model, chat_template_kwargs=values) == expected


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    model = write_thinker(tmp_path_factory.mktemp("thinker"))
    manifest = f"""\
version: 1
models:
  - name: thinker
    source: path:{model}
    engine: {{trust_remote_code: true}}
    residency: {{preload: true}}
    sampling: {{temperature: 0}}
"""
    with (
        running_appliance(manifest, {}) as running,
        httpx.Client(base_url=running.url, timeout=60) as http,
    ):
        yield http


def _post(http: httpx.Client, path: str, **fields: object) -> dict[str, Any]:
    body = {"model": "thinker", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    answer = http.post(path, json=body | fields)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.mlx
def test_thoughts_that_are_disabled_are_ended_where_there_is_no_switch(
    thinker: httpx.Client,
) -> None:
    answer = _post(thinker, "/v1/messages", thinking={"type": "disabled"})

    assert [(block["type"], block.get("text")) for block in answer["content"]] == [("text", "Hi")]
    assert answer["stop_reason"] == "end_turn"


@pytest.mark.mlx
@pytest.mark.parametrize("budget", [0, 1, len(SECRET), 2 * len(SECRET)])
def test_answer_follows_a_thought_of_its_budget(thinker: httpx.Client, budget: int) -> None:
    answer = _post(thinker, "/v1/chat/completions", thinking_token_budget=budget)

    (choice,) = answer["choices"]
    assert (choice["message"].get("reasoning") or "") == (2 * SECRET)[:budget]
    assert choice["message"]["content"] == "Hi"
    assert choice["finish_reason"] == "stop"
