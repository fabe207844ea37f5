"""Responses as the official SDK sees them, with its types checked strictly."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import APIStatusError, BadRequestError, NotFoundError, OpenAI
from openai.types.responses import Response, ResponseItemList

from tests import plain_http
from tests.api.responses import read_strictly
from tests.appliance_server import RunningAppliance, running_appliance, start_in, wait_until
from tests.contract.admin import put

MANIFEST = """\
version: 1
server:
  heartbeat: 100ms
  limits: {max_output_tokens: 1000}
auth_keys:
  - {name: team-a, key: {env: KEY_A}, roles: [inference, admin]}
  - {name: team-b, key: {env: KEY_B}}
models:
  - name: chat
    source: scripted:script.yaml
    chat: {tool_parser: hermes, reasoning_parser: qwen3}
    residency: {preload: true}
"""
SCRIPT = """\
- match: "weather"
  pieces: ["<think>", "Look it up.", "</think>", "Wait.", "<tool_call>\\n",
    '{"name": "weather", "arguments": {"place": "Pa', 'ris"}}', "\\n</tool_call>"]
- match: "18C"
  pieces: ["It is ", "18C."]
- match: "fail later"
  pieces: ["good ", "bad ", "worse "]
  fail_at: 2
- match: "late"
  pieces: ["late"]
  first_delay: 700ms
- match: "forever"
  pieces: ["tick "]
  piece_delay: 20ms
  repeat: 100000
"""
KEYS = {"KEY_A": "a" * 32, "KEY_B": "b" * 32}
TOOL: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    "strict": False,
}


@pytest.fixture(scope="module")
def running() -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, {"script.yaml": SCRIPT}, env=KEYS) as appliance:
        yield appliance


@pytest.fixture(scope="module")
def client(running: RunningAppliance) -> Iterator[OpenAI]:
    with openai(running) as made:
        yield made


def openai(running: RunningAppliance, key: str = "KEY_A") -> OpenAI:
    return OpenAI(
        base_url=f"{running.url}/v1",
        api_key=KEYS[key],
        max_retries=0,
        _strict_response_validation=True,
    )


def post(running: RunningAppliance, **fields: object) -> httpx.Response:
    body = {"model": "chat", "input": "hi", **fields}
    headers = {"authorization": f"Bearer {KEYS['KEY_A']}"}
    return plain_http.post(f"{running.url}/v1/responses", json=body, headers=headers, timeout=30)


def wait_ended(client: OpenAI, response_id: str) -> Response:
    def is_ended() -> bool:
        return client.responses.retrieve(response_id).status not in ("queued", "in_progress")

    wait_until(is_ended, what="the answer has ended")
    return client.responses.retrieve(response_id)


def test_answer_comes_whole_and_is_kept(client: OpenAI) -> None:
    answer = client.responses.create(model="chat", input="one two three", metadata={"a": "b"})

    assert answer.output_text == "one two three"
    assert (answer.status, answer.metadata) == ("completed", {"a": "b"})
    assert answer.usage
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 3)
    assert client.responses.retrieve(answer.id) == answer


@pytest.mark.parametrize("text", ["one two", "weather", "18C"])
def test_stream_says_what_the_whole_answer_does(client: OpenAI, text: str) -> None:
    fields: dict[str, Any] = {"model": "chat", "input": text, "tools": [TOOL]}
    whole = client.responses.create(**fields)

    with client.responses.stream(**fields) as stream:
        got = stream.get_final_response()

    assert without_ids(got.output) == without_ids(whole.output)
    assert got.usage == whole.usage


def without_ids(told: Any) -> Any:  # noqa: ANN401 - what JSON has
    """Return items without ids, which differ each time, and without what the SDK adds."""
    if isinstance(told, list):
        return [without_ids(each) for each in told]
    if not isinstance(told, dict):
        return without_ids(told.to_dict()) if hasattr(told, "to_dict") else told
    left_out = {"id", "call_id", "parsed_arguments", "parsed"}
    return {key: without_ids(told[key]) for key in told.keys() - left_out}


def test_thought_text_and_call_are_items(client: OpenAI) -> None:
    answer = client.responses.create(model="chat", input="weather", tools=[TOOL])

    thought, text, call = answer.output
    assert thought.type == "reasoning" and thought.content
    assert thought.content[0].text == "Look it up."
    assert text.type == "message" and answer.output_text == "Wait."
    assert call.type == "function_call" and call.name == "weather"
    assert json.loads(call.arguments) == {"place": "Paris"}
    assert answer.usage and answer.usage.output_tokens_details.reasoning_tokens > 0


def test_answer_is_continued_by_its_id(client: OpenAI) -> None:
    asked = client.responses.create(
        model="chat", input="weather", tools=[TOOL], instructions="Be brief."
    )
    call = next(item for item in asked.output if item.type == "function_call")

    told = client.responses.create(
        model="chat",
        previous_response_id=asked.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "18C"}],
    )

    assert told.output_text == "It is 18C."
    assert told.instructions is None
    listed = client.responses.input_items.list(told.id, order="asc")
    kinds = ["message", "reasoning", "message", "function_call", "function_call_output"]
    assert [item.type for item in listed] == kinds


def test_input_is_listed_page_by_page(client: OpenAI) -> None:
    items: list[Any] = [{"role": "user", "content": f"line {number}"} for number in range(5)]
    answer = client.responses.create(model="chat", input=items)

    pages = list(client.responses.input_items.list(answer.id, limit=2).iter_pages())

    assert [len(page.data) for page in pages] == [2, 2, 1]
    contents: list[Any] = [item.to_dict()["content"] for page in pages for item in page.data]
    texts = [content[0]["text"] for content in contents]
    assert texts == [f"line {number}" for number in (4, 3, 2, 1, 0)]


def test_listed_input_is_as_the_types_say(client: OpenAI, running: RunningAppliance) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,aa"}
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, image]},
        {"role": "assistant", "content": "b"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [image]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
    ]
    answer = client.responses.create(model="chat", input=items)

    url = f"{running.url}/v1/responses/{answer.id}/input_items?order=asc"
    listed = plain_http.get(url, headers={"x-api-key": KEYS["KEY_A"]}).json()

    ResponseItemList.model_validate(listed, strict=True)
    assert [item["type"] for item in listed["data"]][2:4] == [
        "function_call",
        "function_call_output",
    ]
    assert listed["data"][4]["id"] == listed["last_id"] == "rs_1"


def test_references_are_what_they_mean(client: OpenAI) -> None:
    asked = client.responses.create(model="chat", input="weather", tools=[TOOL])
    references: list[Any] = [{"type": "item_reference", "id": item.id} for item in asked.output]
    call = asked.output[-1]
    assert call.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "18C"}

    told = client.responses.create(model="chat", input=[*references, result])

    assert told.output_text == "It is 18C."
    with pytest.raises(NotFoundError):
        client.responses.create(model="chat", input=[{"type": "item_reference", "id": "rs_no"}])


def test_another_keys_answer_is_not_there(client: OpenAI, running: RunningAppliance) -> None:
    answer = client.responses.create(model="chat", input="secret")

    with openai(running, "KEY_B") as other:
        for ask in (
            lambda: other.responses.retrieve(answer.id),
            lambda: other.responses.delete(answer.id),
            lambda: other.responses.cancel(answer.id),
            lambda: other.responses.input_items.list(answer.id),
            lambda: other.responses.create(model="chat", input="x", previous_response_id=answer.id),
        ):
            with pytest.raises(NotFoundError):
                ask()


def test_deleted_or_never_kept_answer_is_not_there(client: OpenAI) -> None:
    gone = client.responses.create(model="chat", input="a")
    client.responses.delete(gone.id)
    unkept = client.responses.create(model="chat", input="a", store=False)

    for response_id in (gone.id, unkept.id, "resp_unknown"):
        with pytest.raises(NotFoundError):
            client.responses.retrieve(response_id)
        with pytest.raises(NotFoundError):
            client.responses.create(model="chat", input="x", previous_response_id=response_id)


def test_limit_makes_the_answer_incomplete(client: OpenAI) -> None:
    fields: dict[str, Any] = {"model": "chat", "input": "a b c", "max_output_tokens": 2}

    whole = client.responses.create(**fields)
    *_, last = client.responses.create(**fields, stream=True)

    assert (whole.status, whole.output_text) == ("incomplete", "a b ")
    assert whole.incomplete_details and whole.incomplete_details.reason == "max_output_tokens"
    assert last.type == "response.incomplete" and last.response.output_text == "a b "


def test_late_failure_is_the_last_event(client: OpenAI) -> None:
    *_, last = client.responses.create(model="chat", input="fail later", stream=True)

    assert last.type == "response.failed" and last.response.error
    assert last.response.error.code == "server_error"
    assert last.response.output_text.rstrip() == "good bad"
    assert client.responses.retrieve(last.response.id).status == "failed"
    with pytest.raises(APIStatusError) as failure:
        client.responses.create(model="chat", input="fail later")
    assert failure.value.status_code == 500


def test_silent_stream_says_that_it_goes_on(running: RunningAppliance) -> None:
    events = read_strictly(post(running, input="late", stream=True).content)

    kinds = [event["type"] for event in events]
    assert kinds[0] == "response.created"
    assert kinds.count("response.in_progress") >= 4
    assert kinds[-1] == "response.completed"


def test_background_answer_is_asked_for_by_its_id(client: OpenAI) -> None:
    queued = client.responses.create(model="chat", input="one two", background=True)

    ended = wait_ended(client, queued.id)

    assert queued.status == "queued"
    assert (ended.status, ended.output_text) == ("completed", "one two")
    assert client.responses.cancel(queued.id).status == "completed"


def test_background_answer_is_cancelled(client: OpenAI) -> None:
    queued = client.responses.create(model="chat", input="forever", background=True)
    with pytest.raises(BadRequestError) as refusal:
        client.responses.create(model="chat", input="x", previous_response_id=queued.id)

    cancelled = client.responses.cancel(queued.id)

    assert refusal.value.param == "previous_response_id"
    assert cancelled.status == "cancelled"
    assert client.responses.retrieve(queued.id).status == "cancelled"


def test_deleted_background_answer_does_not_come_back(
    client: OpenAI, running: RunningAppliance
) -> None:
    queued = client.responses.create(model="chat", input="forever", background=True)

    client.responses.delete(queued.id)

    def is_ended() -> bool:
        lines = running.logs()
        return any(f"resp_{line.get('request_id')}" == queued.id for line in lines)

    wait_until(is_ended)
    with pytest.raises(NotFoundError):
        client.responses.retrieve(queued.id)


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("conversation", {"conversation": "conv_1"}),
        ("truncation", {"truncation": "auto"}),
        ("stream", {"background": True, "stream": True}),
        ("background", {"background": True, "store": False}),
        ("stream_options", {"stream_options": {}}),
        ("max_output_tokens", {"max_output_tokens": 1001}),
        ("max_output_tokens", {"max_output_tokens": 0}),
        ("tools[0].type", {"tools": [{"type": "file_search", "vector_store_ids": ["a"]}]}),
        ("tools[0].type", {"tools": [{"type": "custom", "name": "a"}]}),
        ("tools[0].name", {"tools": [{"type": "function", "name": 5}]}),
        ("tool_choice", {"tool_choice": {"type": "function", "name": "absent"}}),
        ("tool_choice.type", {"tool_choice": {"type": "file_search"}}),
        ("include[0]", {"include": ["everything"]}),
        ("metadata['a']", {"metadata": {"a": 1}}),
        ("input[0].content[0].type", {"input": [{"role": "user", "content": [{"type": "odd"}]}]}),
        ("input[0].role", {"input": [{"role": "boss", "content": "a"}]}),
        ("input[0].type", {"input": [{}]}),
        ("input", {"input": []}),
        ("input", {"input": 5}),
        ("stream", {"stream": "yes"}),
    ],
)
def test_field_is_refused_by_name(
    running: RunningAppliance, param: str, fields: dict[str, Any]
) -> None:
    response = post(running, **fields)

    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


def test_kept_answer_is_refused_as_a_stream(client: OpenAI) -> None:
    answer = client.responses.create(model="chat", input="a")

    with pytest.raises(BadRequestError) as refusal:
        client.responses.retrieve(answer.id, stream=True)
    with pytest.raises(BadRequestError):
        client.responses.cancel(answer.id)

    assert refusal.value.param == "stream"


def test_kept_answers_survive_an_edit(client: OpenAI, running: RunningAppliance) -> None:
    answer = client.responses.create(model="chat", input="keep me")

    with edited(running, "heartbeat: 150ms\n  responses: {store: 500}"):
        assert client.responses.retrieve(answer.id).output_text == "keep me"


def test_server_that_keeps_nothing_says_so(client: OpenAI, running: RunningAppliance) -> None:
    with edited(running, "responses: {store: 0}"):
        answer = client.responses.create(model="chat", input="a", store=True)
        refused = post(running, background=True)

    assert answer.to_dict()["store"] is False
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "background")


@contextlib.contextmanager
def edited(running: RunningAppliance, line: str) -> Iterator[None]:
    """Serve another manifest for a while."""
    key = f"Bearer {KEYS['KEY_A']}"
    text = MANIFEST.replace("heartbeat: 100ms", line)
    put(running, text, authorization=key).raise_for_status()
    yield
    put(running, MANIFEST, authorization=key).raise_for_status()


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_kept_answers_survive_a_restart(is_killed: bool) -> None:
    manifest = MANIFEST.replace("heartbeat: 100ms", "drain: 200ms")
    with running_appliance(manifest, {"script.yaml": SCRIPT}, env=KEYS) as first:
        with openai(first) as client:
            answer = client.responses.create(model="chat", input="weather", tools=[TOOL])
            cut = client.responses.create(model="chat", input="forever", background=True)
            client.responses.retrieve(cut.id)  # what can be read is written
        if is_killed:
            first.process.kill()
        first.stop()
        second = start_in(first.folder, KEYS, ())
        try:
            with openai(second) as client:
                kept = client.responses.retrieve(answer.id)
                failed = client.responses.retrieve(cut.id)
        finally:
            second.stop()

    assert kept == answer
    assert failed.status == "failed" and failed.error
