"""A language model whose template shows tools and thoughts takes what well-known clients send."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.appliance_server import running_appliance
from tests.clients.shape import GENERATING, SHAPES, models
from tests.packages import sdist_models_folder
from tests.tiny_models import write_worded_model

pytestmark = [pytest.mark.mlx, pytest.mark.registry, pytest.mark.timeout(300)]

TEMPLATE = "templates/Qwen-Qwen3-0.6B.jinja"

REFUSED = {"codex-instructions": "text.verbosity"}
"""Shapes that ask for what only a scripted model promises yet, and the field they are told of."""

SMALL = ("claude-code-quota", "claude-code-title", "open-webui-title", "opencode-title")
"""Shapes without anything that a template could trip over."""

LIMITS = {
    "/v1/chat/completions": {"max_tokens": 1, "max_completion_tokens": 1},
    "/v1/completions": {"max_tokens": 1},
    "/v1/messages": {"max_tokens": 1},
    "/v1/responses": {"max_output_tokens": 1},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    model = write_worded_model(tmp_path_factory.mktemp("worded"))
    manifest = f"""\
version: 1
models:
  - name: chat
    aliases: {json.dumps(models())}
    source: path:{model}
    chat: {{template: "{sdist_models_folder() / TEMPLATE}"}}
    residency: {{preload: true}}
"""
    with (
        running_appliance(manifest, {}) as running,
        httpx.Client(base_url=running.url, timeout=120) as http,
    ):
        yield http


@pytest.mark.parametrize(
    "name", [name for name in GENERATING if name not in SMALL and "follows" not in SHAPES[name]]
)
def test_client_is_answered_by_a_real_model(client: httpx.Client, name: str) -> None:
    shape = SHAPES[name]
    body = {**shape["body"], **LIMITS[shape["path"].partition("?")[0]]}
    body = {key: value for key, value in body.items() if not key.startswith("stream")}

    answer = client.post(shape["path"], headers=shape["headers"], json=body)

    if name in REFUSED:
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == REFUSED[name]
    else:
        assert answer.status_code == 200, answer.text
