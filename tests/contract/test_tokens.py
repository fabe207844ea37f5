"""/tokenize and /detokenize tell of prompts what the models see, and wake none."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance
from tests.chat.tiny import CHATML, write_model
from tests.contract.admin import put
from tests.packages import smollm2_directory

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
models:
  - {{name: tiny, aliases: [org/tiny], source: "path:{model}"}}
  - {{name: loud, like: tiny, chat: {{template: "{loud}"}}}}
  - {{name: moved, source: "path:{moved}"}}
  - {{name: gone, source: "path:/nowhere/at/all"}}
  - {{name: echo, source: "scripted:script.yaml", residency: {{preload: true}}}}
"""
PROMPT = "<|im_start|>user\nhé<|im_end|>\n<|im_start|>assistant\n"
MESSAGES = [{"role": "user", "content": "hé"}]
CALLED = [{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}]


def write_files(folder: Path) -> dict[str, Path]:
    """Write a model without weights: nothing that these tests ask for needs any."""
    model = write_model(folder / "model")
    (model / "config.json").write_text('{"max_position_embeddings": 100}')
    (folder / "loud.jinja").write_text(CHATML.replace("assistant", "ASSISTANT!"))
    moved = shutil.copytree(model, folder / "moved")
    return {"model": model, "moved": moved, "loud": folder / "loud.jinja"}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    manifest = MANIFEST.format(**write_files(tmp_path_factory.mktemp("shelf")))
    with running_appliance(manifest, {"script.yaml": "[]\n"}) as running:
        yield running


def ask(running: RunningAppliance, path: str, **body: object) -> httpx.Response:
    return plain_http.post(f"{running.url}{path}", json=body, timeout=120)


def tokens(running: RunningAppliance, **body: object) -> dict[str, Any]:
    response = ask(running, "/tokenize", **({"model": "tiny"} | body))
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def text(running: RunningAppliance, ids: list[int], model: str = "tiny") -> str:
    response = ask(running, "/detokenize", model=model, tokens=ids)
    assert response.status_code == 200, response.text
    prompt: str = response.json()["prompt"]
    return prompt


def test_conversation_is_tokenized_as_the_template_writes_it(shelf: RunningAppliance) -> None:
    answer = tokens(shelf, messages=MESSAGES)

    assert text(shelf, answer["tokens"]) == PROMPT
    assert answer["count"] == len(answer["tokens"])
    assert (answer["max_model_len"], answer["token_strs"]) == (100, None)


def test_text_is_tokenized_as_it_stands(shelf: RunningAppliance) -> None:
    answer = tokens(shelf, prompt=PROMPT, return_token_strs=True)

    assert answer["tokens"] == tokens(shelf, messages=MESSAGES)["tokens"]
    assert answer["token_strs"][0] == "<|im_start|>"
    assert len(answer["token_strs"]) == answer["count"]


def test_profile_has_its_own_template(shelf: RunningAppliance) -> None:
    answer = tokens(shelf, model="loud", messages=MESSAGES)

    assert text(shelf, answer["tokens"]) == PROMPT.replace("assistant", "ASSISTANT!")


def test_conversation_may_be_longer_than_the_context(shelf: RunningAppliance) -> None:
    assert tokens(shelf, prompt="x" * 5000)["count"] == 5000


def test_counting_wakes_no_model(shelf: RunningAppliance) -> None:
    tokens(shelf, model="org/tiny", messages=MESSAGES)

    statuses = plain_http.get(f"{shelf.url}/health").json()["models"]
    phases = {status["name"]: status["phase"] for status in statuses}
    assert phases == {"tiny": "absent", "moved": "absent", "gone": "absent", "echo": "ready"}
    assert [line for line in shelf.logs() if line.get("model") == "tiny"] == []


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"model": "gone", "prompt": "x"}, 503, "model_not_ready", None),
        ({"model": "no", "prompt": "x"}, 404, "model_not_found", None),
        ({"model": "echo", "prompt": "x"}, 400, None, "model"),
        ({"model": "tiny"}, 400, None, "prompt"),
        ({"model": "tiny", "prompt": "x", "messages": MESSAGES}, 400, None, "prompt"),
        ({"model": "tiny", "messages": []}, 400, None, "messages"),
        ({"model": "tiny", "prompt": "x", "tools": [{"function": {"name": "f"}}]}, 400, None, ""),
        ({"model": "tiny", "messages": MESSAGES, "add_special_tokens": True}, 400, None, ""),
        ({"model": "tiny", "messages": MESSAGES, "chat_template": "x"}, 400, None, ""),
        ({"model": "tiny", "messages": CALLED}, 400, None, "messages[0].function_call"),
        ({"model": "tiny", "messages": MESSAGES, "add_generation_prompt": False}, 400, None, ""),
    ],
)
def test_what_cannot_be_tokenized_is_refused(
    shelf: RunningAppliance, body: dict[str, object], status: int, code: str | None, param: str
) -> None:
    response = ask(shelf, "/tokenize", **body)

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code), error
    assert error["param"] == (list(body)[-1] if param == "" else param)


@pytest.mark.parametrize("ids", [[10**6], [1, -1], [2**31], ["1"], [None], "x"])
def test_tokens_that_there_are_not_are_refused_by_place(
    shelf: RunningAppliance, ids: object
) -> None:
    response = ask(shelf, "/detokenize", model="tiny", tokens=ids)

    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith("tokens")


def test_edited_source_is_read_anew(shelf: RunningAppliance, tmp_path: Path) -> None:
    other = write_model(tmp_path / "other", CHATML.replace("im_start", "start"))
    (other / "config.json").write_text("{}")
    manifest = shelf.manifest.read_text()
    source = next(line for line in manifest.splitlines() if "name: moved" in line)
    edited = manifest.replace(source, f"  - {{name: moved, source: 'path:{other}'}}")
    before = tokens(shelf, model="moved", messages=MESSAGES)["tokens"]

    put(shelf, edited).raise_for_status()
    after = tokens(shelf, model="moved", messages=MESSAGES)["tokens"]

    assert text(shelf, before) == PROMPT
    assert text(shelf, after, "moved") == PROMPT.replace("im_start", "start")


@pytest.mark.mlx
@pytest.mark.timeout(180)
@pytest.mark.registry
def test_count_before_a_load_is_what_the_answer_is_charged() -> None:
    manifest = f"version: 1\nmodels: [{{name: real, source: 'path:{smollm2_directory()}'}}]\n"
    messages = [{"role": "user", "content": "How many are we?"}]
    with running_appliance(manifest, {}) as running:
        before = tokens(running, model="real", messages=messages)
        state = plain_http.get(f"{running.url}/v1/models/real").json()

        body = {"model": "real", "messages": messages, "max_tokens": 1}
        usage = ask(running, "/v1/chat/completions", **body).json()["usage"]
        after = tokens(running, model="real", messages=messages)
        loaded = plain_http.get(f"{running.url}/v1/models/real").json()

    assert before == after
    assert before["count"] == usage["prompt_tokens"]
    assert (state["state"], loaded["state"]) == ("absent", "ready")
    assert state | {"state": "ready"} == loaded
