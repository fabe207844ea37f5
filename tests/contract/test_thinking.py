"""Whether to think is what the request says, else its key, else the model, else the template."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import httpx
import pytest

from tests.appliance_server import RunningAppliance, running_appliance
from tests.chat.tiny import CHATML, write_model

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
