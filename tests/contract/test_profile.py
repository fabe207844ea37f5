"""A profile answers under its own name, out of the memory of the model it is like."""

from pathlib import Path

import psutil
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance
from tests.contract.admin import put, wait_number
from tests.contract.http import chat_body, post_chat
from tests.tiny_models import write_tiny_model

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
models:
  - {name: chat, source: "scripted:script.yaml", residency: {preload: true}}
  - {name: fast, aliases: [quick], like: chat, sampling: {temperature: 0}}
"""


def test_profile_is_listed_and_answers_out_of_its_models_worker() -> None:
    with running_appliance(MANIFEST, {"script.yaml": "[]\n"}) as running:
        listed = plain_http.get(f"{running.url}/v1/models").json()["data"]
        before = psutil.Process(running.process.pid).children()

        answers = [
            post_chat(running.url, {**chat_body("hello"), "model": name}).json()
            for name in ("chat", "fast", "quick")
        ]

        assert [(each["id"], each["root"]) for each in listed] == [
            ("chat", "chat"),
            ("fast", "chat"),
            ("quick", "chat"),
        ]
        assert [each["model"] for each in answers] == ["chat", "fast", "quick"]
        assert {each["choices"][0]["message"]["content"] for each in answers} == {"hello"}
        assert psutil.Process(running.process.pid).children() == before


def _prompt_tokens(running: RunningAppliance, model: str) -> int:
    answer = post_chat(running.url, {**chat_body("123", max_tokens=1), "model": model})
    num_tokens: int = answer.json()["usage"]["prompt_tokens"]
    return num_tokens


@pytest.mark.mlx
def test_profile_and_edit_have_templates_of_their_own_on_one_worker(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path, "llama")
    manifest = f"""\
version: 1
models:
  - {{name: chat, source: "path:{model}", residency: {{preload: true}}}}
  - {{name: bare, like: chat, chat: {{template: bare.jinja}}}}
  - {{name: broken, like: chat, chat: {{template: absent.jinja}}}}
"""
    edited = manifest.replace("preload: true}}", "preload: true}, chat: {template: bare.jinja}}")
    with running_appliance(manifest, {"bare.jinja": "{{ messages[0].content }}"}) as running:
        whole = _prompt_tokens(running, "chat")
        assert _prompt_tokens(running, "bare") == 3 < whole
        assert post_chat(running.url, {**chat_body("hi"), "model": "broken"}).status_code == 503

        put(running, edited).raise_for_status()
        wait_number(running, 2)

        assert _prompt_tokens(running, "chat") == 3
