"""Completions as the official SDK and plain HTTP see them."""

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import APIError, BadRequestError, OpenAI

from tests import plain_http
from tests.appliance_server import RunningAppliance
from tests.contract.http import metric, read_events

FRANCE = "The capital of France is Paris."


def post(appliance: RunningAppliance, **fields: object) -> httpx.Response:
    body = {"model": "chat", "prompt": "capital", **fields}
    return plain_http.post(f"{appliance.url}/v1/completions", json=body, timeout=30)


@contextlib.contextmanager
def stream(appliance: RunningAppliance, **fields: object) -> Iterator[httpx.Response]:
    body = {"model": "chat", "prompt": "capital", "stream": True, **fields}
    url = f"{appliance.url}/v1/completions"
    with plain_http.stream("POST", url, json=body, timeout=30) as response:
        yield response


def stream_events(appliance: RunningAppliance, **fields: object) -> list[Any]:
    with stream(appliance, **fields) as response:
        events, _ = read_events(response.read().decode())
    return events


def test_completion_answers_in_one_piece(client: OpenAI) -> None:
    answer = client.completions.create(model="default", prompt="the capital")

    choice = answer.choices[0]
    assert (answer.model, answer.object) == ("default", "text_completion")
    assert (choice.text, choice.finish_reason, choice.logprobs) == (FRANCE, "stop", None)
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 4)


def test_completion_streams_the_same_text(client: OpenAI) -> None:
    chunks = list(client.completions.create(model="chat", prompt="capital", stream=True))

    assert "".join(chunk.choices[0].text for chunk in chunks) == FRANCE
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 4 + ["stop"]


@pytest.mark.parametrize("text", ["unicode", "cut", "silent", "  echo  of \n this "])
def test_stream_and_whole_answer_agree(appliance: RunningAppliance, text: str) -> None:
    whole = post(appliance, prompt=text).json()["choices"][0]

    *chunks, done = stream_events(appliance, prompt=text)

    assert done == "[DONE]"
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["text"]
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["finish_reason"]


def test_answer_is_sixteen_tokens_unless_asked_for_more(appliance: RunningAppliance) -> None:
    short = post(appliance, prompt="many").json()
    asked = post(appliance, prompt="many", max_tokens=20).json()

    assert short["choices"][0]["finish_reason"] == "length"
    assert short["usage"]["completion_tokens"] == 16
    assert asked["usage"]["completion_tokens"] == 20


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        pytest.param("one", ["one"], id="a text"),
        pytest.param(["one", "two"], ["one", "two"], id="texts"),
        pytest.param([5, 6], ["5 6"], id="token ids"),
        pytest.param([[5, 6], [7]], ["5 6", "7"], id="lists of token ids"),
    ],
)
def test_prompt_has_four_forms(
    appliance: RunningAppliance, prompt: object, texts: list[str]
) -> None:
    answer = post(appliance, prompt=prompt, n=2, echo=True).json()

    choices = [(choice["index"], choice["text"]) for choice in answer["choices"]]
    assert choices == list(enumerate(text * 2 for text in texts for _ in range(2)))
    assert answer["usage"]["prompt_tokens"] == sum(len(text.split()) for text in texts)


def test_every_choice_of_a_stream_is_whole(appliance: RunningAppliance) -> None:
    options = {"include_usage": True}

    *chunks, usage, done = stream_events(
        appliance, prompt=["one", "two"], n=2, echo=True, stream_options=options
    )

    texts: dict[int, str] = defaultdict(str)
    reasons: dict[int, list[str]] = defaultdict(list)
    for choice in (chunk["choices"][0] for chunk in chunks):
        assert choice["index"] not in reasons, "nothing comes after the end"
        texts[choice["index"]] += choice["text"]
        if choice["finish_reason"] is not None:
            reasons[choice["index"]].append(choice["finish_reason"])
    assert [texts[index] for index in range(4)] == ["oneone", "oneone", "twotwo", "twotwo"]
    assert list(reasons.values()) == [["stop"]] * 4
    assert (usage["choices"], usage["usage"]["prompt_tokens"], done) == ([], 2, "[DONE]")


def test_echo_of_a_stream_comes_first(client: OpenAI) -> None:
    chunks = client.completions.create(model="chat", prompt="capital", echo=True, stream=True)

    assert next(chunks).choices[0].text == "capital"
    assert "".join(chunk.choices[0].text for chunk in chunks) == FRANCE


def test_logprobs_of_a_script_are_empty_lists(client: OpenAI) -> None:
    choice = client.completions.create(model="chat", prompt="capital", logprobs=5).choices[0]

    assert choice.logprobs is not None
    assert (choice.logprobs.tokens, choice.logprobs.text_offset) == ([], [])


@pytest.mark.parametrize("stop", ["Paris", ["zzz", "Paris"]])
def test_stop_string_never_leaks(appliance: RunningAppliance, stop: object) -> None:
    whole = post(appliance, stop=stop).json()["choices"][0]
    chunks = stream_events(appliance, stop=stop)[:-1]

    texts = [chunk["choices"][0]["text"] for chunk in chunks]
    assert whole["text"] == "The capital of France is " == "".join(texts)
    assert whole["finish_reason"] == "stop"


def test_thoughts_and_calls_are_text(appliance: RunningAppliance) -> None:
    text = '<think>hm</think><tool_call>{"name":"f","arguments":{}}</tool_call>'

    assert post(appliance, prompt=text).json()["choices"][0]["text"] == text


def test_late_failure_ends_a_stream_with_an_error(client: OpenAI) -> None:
    got = ""

    with pytest.raises(APIError) as failure:
        for chunk in client.completions.create(model="chat", prompt="fail later", stream=True):
            got += chunk.choices[0].text

    assert got == "good bad "
    assert failure.value.code == "generation_failed"


def test_failure_of_one_choice_ends_all(appliance: RunningAppliance) -> None:
    response = post(appliance, prompt=["capital", "fail at once"])

    assert response.status_code == 500
    assert metric(appliance.url, "vllm_mlx_requests_running", model="chat") == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", 5),
        ("prompt", None),
        ("prompt", []),
        ("prompt", ["a", 5]),
        ("prompt", [[]]),
        ("prompt", [-1]),
        ("logprobs", 6),
        ("logprobs", True),
        ("echo", "yes"),
        ("suffix", 5),
        ("n", 0),
        ("n", 129),
        ("best_of", 0),
        ("max_tokens", 0),
        ("max_tokens", 1001),
        ("stream_options", {"include_usage": True}),
    ],
)
def test_wrong_field_is_400_and_named(
    appliance: RunningAppliance, field: str, value: object
) -> None:
    response = post(appliance, **{field: value})

    error = response.json()["error"]
    assert response.status_code == 400, response.text
    assert (error["param"] or "").startswith(field)
    assert field in error["message"]


def test_sdk_names_what_does_not_go_together(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as failure:
        client.completions.create(model="chat", prompt="capital", echo=True, logprobs=1)

    assert failure.value.param == "logprobs"


def test_requests_are_counted_as_completions(appliance: RunningAppliance) -> None:
    def answered() -> float:
        name = "vllm_mlx_requests_total"
        return metric(appliance.url, name, model="chat", api="completions", result="ok")

    before = answered()

    post(appliance, prompt=["one", "two"], n=2)

    assert answered() == before + 1


def test_completion_is_cancelled_by_its_id(appliance: RunningAppliance) -> None:
    with stream(appliance, prompt="forever", max_tokens=1000) as response:
        lines = response.iter_lines()
        answer_id = json.loads(next(lines).removeprefix("data: "))["id"]
        cancelled = plain_http.delete(f"{appliance.url}/v1/requests/{answer_id}")
        last = [line for line in lines if line][-1]

    assert answer_id.startswith("cmpl-")
    assert cancelled.json()["object"] == "request.cancelled"
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "request_cancelled"
