"""Chat Completions as the official SDK sees them."""

from typing import Any

import pytest
from openai import APIError, APIStatusError, BadRequestError, NotFoundError, OpenAI

from tests import plain_http
from tests.appliance_server import RunningAppliance
from tests.contract.http import chat_body, post_chat, read_events, stream_chat

FRANCE = "The capital of France is Paris."


def test_chat_answers_in_one_piece(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": "What is the capital of France?"}]
    )

    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == (FRANCE, "stop")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (6, 4)
    assert answer.usage.total_tokens == 10


def test_chat_streams_the_same_text(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="default", messages=[{"role": "user", "content": "capital"}], stream=True
    )

    chunks = list(stream)
    assert {chunk.model for chunk in chunks} == {"default"}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == FRANCE
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 5 + ["stop"]


@pytest.mark.parametrize("include", [True, False, None])
def test_stream_brings_usage_only_when_asked(
    appliance: RunningAppliance, include: bool | None
) -> None:
    with stream_chat(appliance.url, "capital", stream_options={"include_usage": include}) as got:
        events, _ = read_events(got.read().decode())

    *chunks, done = events
    assert done == "[DONE]"
    with_usage = [chunk for chunk in chunks if chunk.get("usage")]
    assert len(with_usage) == (1 if include else 0)
    if include:
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize(
    "text", ["capital", "unicode", "cut", "silent", "plain echo  of \n this", "  hi \n"]
)
def test_stream_and_whole_answer_agree(appliance: RunningAppliance, text: str) -> None:
    whole = post_chat(appliance.url, chat_body(text)).json()["choices"][0]
    with stream_chat(appliance.url, text) as response:
        events, _ = read_events(response.read().decode())

    deltas = [chunk["choices"][0]["delta"].get("content", "") for chunk in events[:-1]]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in events[:-1]]
    assert "".join(deltas) == whole["message"]["content"]
    assert reasons[-1] == whole["finish_reason"]
    assert set(reasons[:-1]) == {None}


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_limit_cuts_the_answer(appliance: RunningAppliance, field: str) -> None:
    answer = post_chat(appliance.url, chat_body("capital", **{field: 2})).json()

    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == "The capital of France "
    assert answer["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        pytest.param("Paris", "The capital of France is ", id="across pieces"),
        pytest.param(["zzz", "France"], "The capital of ", id="the second of a list"),
        pytest.param("The", "", id="at the start"),
        pytest.param(["Paris!"], FRANCE, id="almost"),
    ],
)
def test_stop_string_never_leaks(
    appliance: RunningAppliance, stop: str | list[str], text: str
) -> None:
    whole = post_chat(appliance.url, chat_body("capital", stop=stop)).json()["choices"][0]
    with stream_chat(appliance.url, "capital", stop=stop) as response:
        events, _ = read_events(response.read().decode())

    deltas = [chunk["choices"][0]["delta"].get("content", "") for chunk in events[:-1]]
    assert whole["message"]["content"] == text == "".join(deltas)
    assert whole["finish_reason"] == "stop"


@pytest.mark.parametrize(("text", "before"), [("fail at once", ""), ("fail later", "good bad ")])
def test_engine_failure_ends_a_stream_with_an_error(client: OpenAI, text: str, before: str) -> None:
    got = ""

    with pytest.raises(APIError) as failure:
        for chunk in client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": text}], stream=True
        ):
            got += chunk.choices[0].delta.content or ""

    assert got == before
    assert failure.value.code == "generation_failed"


@pytest.mark.parametrize("text", ["fail at once", "fail later"])
def test_engine_failure_is_a_500_when_not_streaming(client: OpenAI, text: str) -> None:
    with pytest.raises(APIStatusError) as failure:
        client.chat.completions.create(model="chat", messages=[{"role": "user", "content": text}])

    assert failure.value.status_code == 500
    assert failure.value.type == "server_error"


def test_error_event_is_the_last_thing_a_stream_says(appliance: RunningAppliance) -> None:
    with stream_chat(appliance.url, "fail later") as response:
        events, _ = read_events(response.read().decode())

    assert "error" in events[-1]
    assert "[DONE]" not in events


def test_unknown_model_is_404_with_a_suggestion(client: OpenAI) -> None:
    with pytest.raises(NotFoundError) as failure:
        client.chat.completions.create(
            model="chatt", messages=[{"role": "user", "content": "x"}], stream=True
        )

    assert failure.value.code == "model_not_found"
    assert "Did you mean 'chat'?" in failure.value.message


def test_limit_over_the_servers_is_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as failure:
        client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": "x"}], max_tokens=1001
        )

    assert failure.value.param == "max_tokens"


def test_scripted_model_accepts_every_request_field(appliance: RunningAppliance) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    fields = {
        "tools": [tool],
        "tool_choice": "required",
        "response_format": {"type": "json_object"},
        "n": 2,
        "logprobs": True,
        "top_logprobs": 3,
        "frequency_penalty": 1.5,
        "logit_bias": {"5": 1},
        "reasoning_effort": "low",
        "ignore_eos": True,
        "temperature": 0,
        "top_k": 5,
        "min_p": 0.1,
        "top_p": 0.5,
        "seed": 7,
    }

    response = post_chat(appliance.url, chat_body("capital", **fields))

    assert response.status_code == 200, response.text


def test_models_are_listed_with_their_aliases(client: OpenAI) -> None:
    listed = {model.id: model for model in client.models.list()}

    assert list(listed)[:4] == ["chat", "default", "org/chat", "broken"]
    assert client.models.retrieve("org/chat").id == "org/chat"
    with pytest.raises(NotFoundError):
        client.models.retrieve("none")


def load_failures(appliance: RunningAppliance) -> list[dict[str, Any]]:
    return [line for line in appliance.logs() if line["event"] == "model_load_failed"]


def test_model_that_cannot_load_is_503_and_status_tells_why(appliance: RunningAppliance) -> None:
    body = chat_body("x") | {"model": "broken"}
    before = len(load_failures(appliance))

    for stream in (False, True):
        response = post_chat(appliance.url, body | {"stream": stream})

        assert response.status_code == 503
        assert response.json()["error"]["code"] == "model_not_ready"
        assert "absent.yaml" not in response.json()["error"]["message"]
        assert int(response.headers["retry-after"]) >= 1

    health = plain_http.get(f"{appliance.url}/health").json()["models"][1]
    assert health["phase"] == "failed" and "absent.yaml" in health["reason"]
    assert len(load_failures(appliance)) <= before + 1, "one load attempt, however many ask"
