"""The OpenAPI document is valid, fresh and complete: every mounted route is in it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import delete

from appliance.api.errors import ERROR_TABLE
from appliance.api.openapi import handler_keys, openapi_document, openapi_text
from appliance.api.route import ROUTES
from appliance.cli.main import main
from tests.appliance_server import running_appliance

FILE = Path(__file__).parents[2] / "schemas" / "openapi.json"
STREAMING = {
    ("post", "/v1/chat/completions"),
    ("post", "/v1/completions"),
    ("post", "/v1/messages"),
    ("post", "/v1/responses"),
    ("get", "/admin/v1/status"),
    ("get", "/admin/v1/logs"),
    ("get", "/admin/v1/events"),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(openapi_text())
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_file_is_fresh() -> None:
    assert FILE.read_text(encoding="utf-8") == openapi_text()


def test_command_prints_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["schema", "openapi"])

    assert code == 0
    assert capsys.readouterr().out == openapi_text()


@pytest.mark.slow
def test_served_document_needs_no_key_and_leaves_out_what_is_closed() -> None:
    manifest = """\
version: 1
server: {endpoints: {chat: {enabled: false}}}
auth_keys: [{name: all, key: {env: KEY}}]
models: []
"""
    with running_appliance(manifest, {}, env={"KEY": "key"}) as running:
        paths = httpx.get(f"{running.url}/openapi.json").json()["paths"]

    assert "/v1/models" in paths
    assert "/v1/chat/completions" not in paths
    assert not any(path.startswith(("/v1/messages", "/v1/responses")) for path in paths)


def test_route_that_is_not_in_the_table_is_an_error() -> None:
    @delete("/v1/unheard/{name:str}")
    async def unheard(name: str) -> None: ...

    keys = handler_keys([unheard])

    assert keys == {("DELETE", "/v1/unheard/{name:str}")}
    with pytest.raises(KeyError):
        openapi_document(keys)


def test_streaming_routes_tell_of_both_kinds_of_answer(document: dict[str, Any]) -> None:
    kinds = {
        (method, path): set(operation["responses"]["200"]["content"])
        for method, path, operation in operations(document)
    }

    assert {place for place, kind in kinds.items() if "text/event-stream" in kind} == STREAMING
    assert kinds["post", "/v1/chat/completions"] == {"application/json", "text/event-stream"}


def test_operations_have_names_of_their_own_and_every_parameter_of_their_path(
    document: dict[str, Any],
) -> None:
    found = list(operations(document))

    names = [operation["operationId"] for _, _, operation in found]
    assert len(set(names)) == len(names) == len(ROUTES)
    for _, path, operation in found:
        told = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert told == set(re.findall(r"\{(\w+)\}", path)), path


def test_every_error_of_a_route_is_in_the_table() -> None:
    assert [each for route in ROUTES for each in route.errors if each not in ERROR_TABLE] == []


@pytest.mark.parametrize(
    ("path", "shape"), [("/v1/messages", "AnthropicErrorBody"), ("/v1/responses", "ErrorBody")]
)
def test_errors_are_told_in_the_dialect_of_the_route(
    document: dict[str, Any], path: str, shape: str
) -> None:
    responses = document["paths"][path]["post"]["responses"]

    schemas = {
        status: response["content"]["application/json"]["schema"]["$ref"]
        for status, response in responses.items()
        if status != "200"
    }
    assert set(schemas.values()) == {f"#/components/schemas/{shape}"}
    assert {"400", "401", "403", "404", "408", "413", "429", "503", "504"} <= schemas.keys()


def test_admin_routes_say_which_role_they_need(document: dict[str, Any]) -> None:
    roles = {path: operation.get("x-required-role") for _, path, operation in operations(document)}

    assert roles["/admin/v1/plan"] == "admin"
    assert roles["/v1/models"] == "inference"
    assert roles["/health"] is None
