"""The manifest says which models are served at which endpoints, and to which web pages."""

import pytest

from tests import plain_http
from tests.appliance_server import running_appliance
from tests.contract.admin import put
from tests.contract.http import chat_body, post_chat

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
server:
  endpoints: {chat: {models: [echo]}}
  cors: {origins: ["https://notes.example"]}
models:
  - {name: echo, aliases: [parrot], source: "scripted:script.yaml", residency: {preload: true}}
  - {name: other, source: "scripted:script.yaml"}
"""
FILES = {"script.yaml": "[]\n"}


def test_chat_is_open_to_the_models_it_names_and_their_aliases() -> None:
    with running_appliance(MANIFEST, FILES) as running:
        answers = {
            name: post_chat(running.url, {**chat_body("hi"), "model": name}).status_code
            for name in ("echo", "parrot", "other")
        }
        refused = post_chat(running.url, {**chat_body("hi"), "model": "other"}).json()

        put(running, MANIFEST.replace("[echo]", '"*"')).raise_for_status()
        after = post_chat(running.url, {**chat_body("hi"), "model": "other"}).status_code

    assert answers == {"echo": 200, "parrot": 200, "other": 403}
    assert refused["error"]["code"] == "endpoint_disabled"
    assert after == 200


def test_cors_opens_to_the_origins_it_names_and_closes_again() -> None:
    origin = {"origin": "https://notes.example"}
    with running_appliance(MANIFEST, FILES) as running:
        url = f"{running.url}/v1/models"
        named = plain_http.get(url, headers=origin).headers.get("access-control-allow-origin")
        other = plain_http.get(url, headers={"origin": "https://evil.example"}).headers

        put(running, MANIFEST.replace('["https://notes.example"]', "[]")).raise_for_status()
        closed = plain_http.get(url, headers=origin).headers

    assert named == "https://notes.example"
    assert "access-control-allow-origin" not in other
    assert "access-control-allow-origin" not in closed
