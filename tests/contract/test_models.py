"""/v1/models tells what each name can do, before a load too, in both vendors' shapes."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from anthropic import Anthropic
from anthropic import NotFoundError as AnthropicNotFound
from openai import NotFoundError, OpenAI

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance
from tests.chat.tiny import CHATML, write_model

pytestmark = pytest.mark.slow

QWEN = CHATML + '{% if tools %}<tool_call>{"name": …}</tool_call>{% endif %}<think></think>'
MANIFEST = """\
version: 1
auth_keys:
  - {{name: all, key: {{sha256: {all_key}}}}}
  - {{name: nick, key: {{sha256: {nick_key}}}, models: [nickname]}}
models:
  - {{name: echo, aliases: [nickname, org/echo], source: "scripted:script.yaml",
      residency: {{preload: true}}}}
  - {{name: nested, source: "path:{model}"}}
  - {{name: bounded, source: "path:{model}", engine: {{max_context_tokens: 8192}}}}
  - {{name: plain, like: nested, chat: {{tool_parser: none, reasoning_parser: none}}}}
  - {{name: gone, source: "path:{folder}/late"}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def shelf(folder: Path) -> Iterator[RunningAppliance]:
    """Models whose files hold no weights: whatever is told of them needs no load."""
    model = write_model(folder / "nested", QWEN)
    config = {"max_position_embeddings": 7, "text_config": {"max_position_embeddings": 40960}}
    (model / "config.json").write_text(json.dumps(config))
    keys = {f"{name}_key": sha256(f"{name}-key".encode()).hexdigest() for name in ("all", "nick")}
    with running_appliance(
        MANIFEST.format(model=model, folder=folder, **keys), {"script.yaml": "[]\n"}
    ) as running:
        yield running


def listed(running: RunningAppliance, key: str = "all-key") -> dict[str, dict[str, object]]:
    headers = {"authorization": f"Bearer {key}"}
    entries = plain_http.get(f"{running.url}/v1/models", headers=headers).json()["data"]
    return {entry["id"]: entry for entry in entries}


@pytest.fixture
def openai(shelf: RunningAppliance) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{shelf.url}/v1", api_key="all-key", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic(shelf: RunningAppliance) -> Iterator[Anthropic]:
    with Anthropic(base_url=shelf.url, api_key="all-key", max_retries=0) as client:
        yield client


@pytest.mark.parametrize(
    ("name", "context", "state"),
    [
        ("nested", 40960, "absent"),
        ("bounded", 8192, "absent"),
        ("plain", 40960, "absent"),
        ("gone", None, "absent"),
        ("echo", 2**20, "ready"),
    ],
)
def test_context_length_is_told_before_a_load(
    shelf: RunningAppliance, name: str, context: int | None, state: str
) -> None:
    entry = listed(shelf)[name]

    assert (entry["context_length"], entry["max_model_len"]) == (context, context)
    assert (entry["state"], entry["kind"]) == (state, "text")


def test_capabilities_are_those_of_template_and_manifest(shelf: RunningAppliance) -> None:
    entries = listed(shelf)

    assert entries["nested"]["capabilities"] == ["chat", "completions", "tools", "thinking"]
    assert entries["plain"]["capabilities"] == ["chat", "completions"]
    assert entries["echo"]["capabilities"] == ["chat", "completions"]


def test_aliases_are_listed_with_what_they_stand_for(shelf: RunningAppliance) -> None:
    entries = listed(shelf)

    assert list(entries)[:3] == ["echo", "nickname", "org/echo"]
    assert entries["nickname"]["root"] == "echo"
    assert entries["nickname"]["aliases"] == ["echo", "org/echo"]


def test_key_learns_only_the_names_that_it_may_use(shelf: RunningAppliance) -> None:
    entries = listed(shelf, "nick-key")

    assert list(entries) == ["nickname"]
    assert entries["nickname"]["aliases"] == []


def test_list_is_the_same_each_time(shelf: RunningAppliance) -> None:
    assert listed(shelf) == listed(shelf)


def test_openai_client_finds_models_by_every_name(openai: OpenAI) -> None:
    names = [model.id for model in openai.models.list()]

    assert [openai.models.retrieve(name).id for name in names] == names


def test_unknown_model_is_404_with_a_near_name(openai: OpenAI) -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'nested'") as caught:
        openai.models.retrieve("nestet")

    assert caught.value.code == "model_not_found"


def test_anthropic_client_reads_every_page(anthropic: Anthropic) -> None:
    forward = [model.id for model in anthropic.models.list(limit=2)]
    page = anthropic.models.list(limit=2, before_id="plain")

    assert forward == ["echo", "nickname", "org/echo", "nested", "bounded", "plain", "gone"]
    assert [model.id for model in page.data] == ["nested", "bounded"]
    assert (page.has_more, page.first_id, page.last_id) == (True, "nested", "bounded")


def test_anthropic_client_finds_one_model(anthropic: Anthropic) -> None:
    model = anthropic.models.retrieve("org/echo")

    assert (model.id, model.display_name, model.type) == ("org/echo", "org/echo", "model")
    assert model.created_at.timestamp() == 0
    with pytest.raises(AnthropicNotFound):
        anthropic.models.retrieve("nothing")


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x"])
def test_page_of_a_wrong_size_is_400(shelf: RunningAppliance, query: str) -> None:
    headers = {"authorization": "Bearer all-key", "anthropic-version": "2023-06-01"}

    response = plain_http.get(f"{shelf.url}/v1/models?{query}", headers=headers)

    assert response.status_code == 400, response.text


def test_files_that_appear_are_seen(shelf: RunningAppliance, folder: Path) -> None:
    before = listed(shelf)["gone"]

    write_model(folder / "late")
    (folder / "late" / "config.json").write_text('{"n_positions": 512}')
    after = listed(shelf)["gone"]

    assert (before["context_length"], after["context_length"]) == (None, 512)
    assert after["state"] == "absent"
