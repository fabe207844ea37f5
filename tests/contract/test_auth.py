"""API keys: both headers, roles, models, and what is open without one."""

from collections.abc import Iterator
from hashlib import sha256

import httpx
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance
from tests.contract.http import chat_body, post_chat

pytestmark = pytest.mark.slow

MANIFEST = f"""\
version: 1
auth_keys:
  - {{name: ops, key: {{sha256: {sha256(b"ops-key").hexdigest()}}}, roles: [admin, metrics]}}
  - {{name: team, key: {{env: TEAM_KEY}}, models: [chat]}}
  - {{name: file, key: {{file: key.txt}}}}
models:
  - name: chat
    aliases: [nickname]
    source: scripted:script.yaml
    residency: {{preload: true}}
  - {{name: other, source: "scripted:script.yaml"}}
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningAppliance]:
    files = {"script.yaml": "[]\n", "key.txt": "file-key\n"}
    with running_appliance(MANIFEST, files, env={"TEAM_KEY": "team-key"}) as running:
        yield running


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer team-key"},
        {"authorization": "bearer  team-key"},
        {"x-api-key": "team-key"},
        {"authorization": "Bearer file-key"},
    ],
)
def test_right_key_is_let_in(guarded: RunningAppliance, headers: dict[str, str]) -> None:
    response = plain_http.post(
        f"{guarded.url}/v1/chat/completions", json=chat_body("hi"), headers=headers
    )

    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic team-key"},
        {"x-api-key": "team-key2"},
        {"authorization": "Bearer wrong", "x-api-key": "team-key"},
    ],
)
def test_wrong_key_is_401(guarded: RunningAppliance, headers: dict[str, str]) -> None:
    response = plain_http.get(f"{guarded.url}/v1/models", headers=headers)

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["code"] == "invalid_api_key"


def test_key_sees_only_its_models(guarded: RunningAppliance) -> None:
    headers = {"x-api-key": "team-key"}

    listed = plain_http.get(f"{guarded.url}/v1/models", headers=headers).json()["data"]
    other = post_chat(guarded.url, chat_body("x") | {"model": "other"}, x_api_key="team-key")

    assert [model["id"] for model in listed] == ["chat", "nickname"]
    assert other.status_code == 404


def test_key_for_a_model_opens_its_aliases_too(guarded: RunningAppliance) -> None:
    by_alias = chat_body("x") | {"model": "nickname"}

    assert post_chat(guarded.url, by_alias, x_api_key="team-key").status_code == 200


def test_models_of_others_are_not_even_suggested(guarded: RunningAppliance) -> None:
    refused = post_chat(guarded.url, chat_body("x") | {"model": "othr"}, x_api_key="team-key")

    assert refused.status_code == 404
    assert "other" not in refused.json()["error"]["message"]


def test_role_is_required(guarded: RunningAppliance) -> None:
    assert post_chat(guarded.url, chat_body("x"), x_api_key="ops-key").status_code == 403
    assert plain_http.get(f"{guarded.url}/metrics", headers={"x-api-key": "ops-key"}).is_success
    assert plain_http.get(f"{guarded.url}/metrics").status_code == 401


def test_health_shows_detail_only_with_a_key(guarded: RunningAppliance) -> None:
    assert plain_http.get(f"{guarded.url}/health/live").json() == {"status": "live"}
    assert plain_http.get(f"{guarded.url}/health").json() == {"status": "ready"}
    detail = plain_http.get(f"{guarded.url}/health", headers={"x-api-key": "team-key"}).json()
    assert [model["name"] for model in detail["models"]] == ["chat"]
    every = plain_http.get(f"{guarded.url}/health", headers={"x-api-key": "file-key"}).json()
    assert [model["name"] for model in every["models"]] == ["chat", "other"]


def test_keys_never_show_in_logs(guarded: RunningAppliance) -> None:
    post_chat(guarded.url, chat_body("a secret prompt"), x_api_key="team-key")

    text = repr(guarded.logs()) + guarded.errors()
    for secret in ("team-key", "file-key", "ops-key", "secret prompt"):
        assert secret not in text


def test_private_socket_needs_no_key(guarded: RunningAppliance) -> None:
    transport = httpx.HTTPTransport(uds=str(guarded.state_dir / "admin.sock"))

    with httpx.Client(transport=transport, base_url="http://appliance") as client:
        assert client.get("/metrics").is_success
        assert len(client.get("/v1/models").json()["data"]) == 3
    assert (guarded.state_dir / "admin.sock").stat().st_mode & 0o777 == 0o600
    assert guarded.state_dir.stat().st_mode & 0o777 == 0o700
