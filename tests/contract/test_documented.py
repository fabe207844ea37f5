"""The document is sound, and what it allows, or just not, is answered as it says."""

import json
from collections.abc import Iterator

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
from tests.appliance_server import RunningAppliance
from tests.contract.guarded import KEY, guarded_appliance

pytestmark = pytest.mark.slow

ENDLESS = ("/admin/v1/drain", "/admin/v1/events", "watch", "follow")
"""Paths and parameters with which the appliance ends, or an answer does not."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

SCHEMA = schemathesis.openapi.from_dict(json.loads(openapi_text()))
OPERATIONS = {
    f"{result.ok().method} {result.ok().path}": result.ok()
    for result in SCHEMA.get_all_operations()
    if isinstance(result, Ok) and result.ok().path not in ENDLESS
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    with guarded_appliance(tmp_path_factory.mktemp("model")) as running:
        yield running


def test_document_is_valid() -> None:
    SCHEMA.validate()

    assert json.loads(openapi_text())["openapi"].startswith("3.1.")


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


@pytest.mark.parametrize("name", OPERATIONS)
def test_documented_requests_are_answered_as_documented(
    guarded: RunningAppliance, name: str
) -> None:
    check_operation(guarded, name, 3)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_documented_requests_are_answered_as_documented(
    guarded: RunningAppliance, name: str
) -> None:
    check_operation(guarded, name, 60)
