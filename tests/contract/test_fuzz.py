"""Whatever a client sends, every route answers: no crash, no hang, no error of the server's."""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx
import pytest

from appliance.api.openapi import openapi_text
from tests.appliance_server import RunningAppliance
from tests.contract.guarded import KEY, guarded_appliance
from tests.contract.mutation import BODIES, mutated_bodies

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    with guarded_appliance(tmp_path_factory.mktemp("model")) as running:
        yield running


def test_served_document_tells_of_every_mounted_route_and_no_other(
    guarded: RunningAppliance,
) -> None:
    served = httpx.get(f"{guarded.url}/openapi.json")

    assert served.status_code == 200
    assert served.json() == json.loads(openapi_text())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", BODIES)
def test_thousands_of_spoilt_bodies_are_answered(guarded: RunningAppliance, path: str) -> None:
    # The plainest client there is: the others take longer than the appliance does.
    with closing(HTTPConnection(urlsplit(guarded.url).netloc, timeout=20)) as connection:
        for body in mutated_bodies(path, 5000, seed=2):
            with suppress(ConnectionError):  # a body that is too long is not read to its end
                connection.request("POST", path, body, KEY)
            response = connection.getresponse()
            answer = response.read()
            assert response.status < 500, (answer[:300], body[:3000])
            assert response.status == 200 or json.loads(answer)["error"]["message"], body[:3000]


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
