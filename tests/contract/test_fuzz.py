"""Whatever a client sends, every route answers: no crash, no hang, no error of the server's."""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from appliance.api.openapi import openapi_text
from tests.appliance_server import RunningAppliance, running_appliance
from tests.chat.tiny import CHATML, write_model
from tests.contract.mutation import BODIES, mutated_bodies

MANIFEST = """\
version: 1
auth_keys:
  - {{name: ops, key: {{sha256: {digest}}}, roles: [admin, inference, metrics]}}
server:
  limits: {{request_timeout: 20s, max_body: 1MiB, max_output_tokens: 1000}}
models:
  - {{name: echo, source: "scripted:script.yaml", residency: {{preload: true}}}}
  - {{name: tiny, source: "path:{model}"}}
"""
KEY = {"authorization": "Bearer ops-key"}
ENDLESS = ("/admin/v1/drain", "/admin/v1/events", "watch", "follow")
"""Paths and parameters with which the appliance ends, or an answer does not."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def make_manifest(folder: Path) -> str:
    """Return a manifest with a script, and a model of which only the tokenizer is there."""
    template = CHATML + "{% if tools %}{{ tools | tojson }}{% endif %}"
    (write_model(folder, template) / "config.json").write_text("{}")
    return MANIFEST.format(digest=sha256(b"ops-key").hexdigest(), model=folder)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    manifest = make_manifest(tmp_path_factory.mktemp("model"))
    with running_appliance(manifest, {"script.yaml": "[]\n"}) as running:
        yield running
        assert running.process.poll() is None
        assert [line for line in running.logs() if "crashed" in line.get("event", "")] == []
        assert running.errors() == ""


def test_served_document_tells_of_every_mounted_route_and_no_other(
    guarded: RunningAppliance,
) -> None:
    served = httpx.get(f"{guarded.url}/openapi.json")

    assert served.status_code == 200
    assert served.json() == json.loads(openapi_text())


def check_mutations(running: RunningAppliance, path: str, count: int, start: int) -> None:
    # The plainest client there is: the others take longer than the appliance does.
    with closing(HTTPConnection(urlsplit(running.url).netloc, timeout=20)) as connection:
        for body in mutated_bodies(path, count, start):
            with suppress(ConnectionError):  # a body that is too long is not read to its end
                connection.request("POST", path, body, KEY)
            response = connection.getresponse()
            answer = response.read()
            assert response.status < 500, (answer[:300], body[:3000])
            assert response.status == 200 or json.loads(answer)["error"]["message"], body[:3000]


@pytest.mark.parametrize("path", BODIES)
def test_spoilt_bodies_are_answered(guarded: RunningAppliance, path: str) -> None:
    check_mutations(guarded, path, 50, start=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", BODIES)
def test_thousands_of_spoilt_bodies_are_answered(guarded: RunningAppliance, path: str) -> None:
    check_mutations(guarded, path, 5000, start=2)


@pytest.mark.parametrize("digits", [19, 20, 400, 5000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_number_beyond_all_bounds_is_no_fault_of_the_server(
    guarded: RunningAppliance, digits: int, sign: str
) -> None:
    number = sign + "9" * digits
    with httpx.Client(base_url=guarded.url, headers=KEY) as client:
        answers = [
            client.get(f"/admin/v1/history/{number}"),
            client.get(f"/admin/v1/logs?lines={number}"),
            client.get(f"/v1/models?limit={number}", headers={"anthropic-version": "1"}),
            client.post("/admin/v1/rollback", content=f'{{"number": {number}}}'),
        ]

    assert {answer.status_code for answer in answers} <= {200, 400, 404}


SCHEMA = schemathesis.openapi.from_dict(json.loads(openapi_text()))
OPERATIONS = {
    f"{result.ok().method} {result.ok().path}": result.ok()
    for result in SCHEMA.get_all_operations()
    if isinstance(result, Ok) and result.ok().path not in ENDLESS
}


def check_operation(running: RunningAppliance, name: str, count: int) -> None:
    """Send `count` requests that the document allows, or just not; none may surprise."""

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(list(GenerationMode)))
        case = data.draw(OPERATIONS[name].as_strategy(generation_mode=mode))
        case.headers.update(KEY)
        case.query = {key: each for key, each in (case.query or {}).items() if key not in ENDLESS}
        if isinstance(case.body, dict) and data.draw(st.booleans()):
            case.body["model"] = "echo"
        response = case.call(base_url=running.url, timeout=20)
        if response.status_code != 504:  # a request may allow itself too little time
            case.validate_response(response, checks=CHECKS)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_documented_requests_are_answered_as_documented(
    guarded: RunningAppliance, name: str
) -> None:
    check_operation(guarded, name, 3)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_documented_requests_are_answered_as_documented(
    guarded: RunningAppliance, name: str
) -> None:
    check_operation(guarded, name, 60)
