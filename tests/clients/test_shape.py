"""Well-known clients get an answer in full to what they send, streamed and not."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.appliance_server import RunningAppliance, running_appliance
from tests.clients.shape import COUNTING, GENERATING, SHAPES, is_as_expected, models, script
from tests.dialect.answer import Answer, Json
from tests.dialect.table import BY_PATH, read

pytestmark = pytest.mark.slow

MANIFEST = f"""\
version: 1
models:
  - name: chat
    aliases: {json.dumps(models())}
    source: scripted:script.yaml
    chat: {{tool_parser: hermes, reasoning_parser: qwen3}}
    residency: {{preload: true}}
"""


@pytest.fixture(scope="module")
def appliance() -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, {"script.yaml": script()}) as running:
        yield running


@pytest.fixture
def client(appliance: RunningAppliance) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=appliance.url, timeout=30) as http:
        yield http


def send(client: httpx.Client, shape: Json, **fields: object) -> httpx.Response:
    body = {**shape["body"], **fields}
    if shape.get("follows"):
        before = send(client, SHAPES[shape["follows"]], stream=False).json()
        (call,) = [item["call_id"] for item in before["output"] if "call_id" in item]
        text = json.dumps(body).replace("{response}", before["id"]).replace("{call}", call)
        body = json.loads(text)
    return client.request(shape["method"], shape["path"], headers=shape["headers"], json=body)


def answer(client: httpx.Client, shape: Json, **fields: object) -> Answer:
    dialect = BY_PATH[shape["path"].partition("?")[0]]
    response = send(client, shape, **fields)
    is_stream = response.headers["content-type"].startswith("text/event-stream")
    assert is_stream == fields["stream"], response.text
    return read(response, dialect)


@pytest.mark.parametrize("name", GENERATING)
def test_client_gets_its_answer_streamed_and_not(client: httpx.Client, name: str) -> None:
    shape = SHAPES[name]
    path = shape["path"].partition("?")[0]
    has_options = path in ("/v1/chat/completions", "/v1/completions")
    options: Json = BY_PATH[path].stream_fields if has_options else {"stream": True}

    whole = answer(client, shape, stream=False, **({"stream_options": None} if has_options else {}))
    stream = answer(client, shape, **options)

    assert stream == whole
    assert is_as_expected(whole, shape["expected"]), whole


@pytest.mark.parametrize("name", GENERATING)
def test_client_gets_what_it_asked_for_as_it_sent_it(client: httpx.Client, name: str) -> None:
    shape = SHAPES[name]

    response = send(client, shape)

    is_stream = bool(shape["body"].get("stream"))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream") == is_stream
    assert shape["body"]["model"] in response.text


@pytest.mark.parametrize("name", COUNTING)
def test_counting_request_gets_a_number(client: httpx.Client, name: str) -> None:
    response = send(client, SHAPES[name])

    assert response.status_code == 200, response.text
    assert response.json() == {"input_tokens": 4}
