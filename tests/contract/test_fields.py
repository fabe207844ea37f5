"""Request fields: refused by name when wrong, accepted by the official SDK, null as left out."""

import time
from typing import Any

import httpx
import pytest
from openai import APIStatusError, OpenAI

from tests import plain_http
from tests.appliance_server import RunningAppliance
from tests.contract.http import chat_body, metric, post_chat, read_events, stream_chat

FIELDS: dict[str, Any] = {
    "frequency_penalty": -2,
    "presence_penalty": 2,
    "logit_bias": {"5": -100, "0": 1.5},
    "logprobs": True,
    "top_logprobs": 20,
}
EXTENSIONS: dict[str, Any] = {
    "repetition_penalty": 1.1,
    "min_tokens": 2,
    "stop_token_ids": [0, 5],
    "priority": -1,
    "timeout": 5,
}


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("frequency_penalty", 2.1, "Expected `float` <= 2.0"),
        ("frequency_penalty", -2.1, "Expected `float` >= -2.0"),
        ("frequency_penalty", "1", "Expected `float | null`, got `str`"),
        ("presence_penalty", 3, "Expected `float` <= 2.0"),
        ("presence_penalty", True, "Expected `float | null`, got `bool`"),
        ("repetition_penalty", 0, "Expected `float` > 0.0"),
        ("repetition_penalty", 10.5, "Expected `float` <= 10.0"),
        ("logit_bias", [5], "Expected `object | null`, got `array`"),
        ("logit_bias", dict.fromkeys(map(str, range(1025)), 1), "Expected `object` of length <="),
        ("logit_bias['x']", {"x": 1}, "the key should be a token id"),
        ("logit_bias['-1']", {"-1": 1}, "the key should be a token id"),
        ("logit_bias['05']", {"5": 1, "05": 1}, "the key should be a token id"),
        ("logit_bias['2147483648']", {"2147483648": 1}, "the key should be a token id"),
        ("logit_bias['²']", {"²": 1}, "the key should be a token id"),
        ("logit_bias['5']", {"5": 100.5}, "should be from -100 to 100"),
        ("logit_bias['5']", {"5": "1"}, "should be a number"),
        ("logit_bias['5']", {"5": None}, "should be a number"),
        ("logit_bias['5']", {"5": True}, "should be a number"),
        ("top_k", -2, "Expected `int` >= -1"),
        ("top_k", 10**30, "Expected `int` <= 2147483647"),
        ("max_tokens", 10**30, "Expected `int` <= 2147483647"),
        ("min_tokens", 10**30, "Expected `int` <= 2147483647"),
        ("min_tokens", -1, "Expected `int` >= 0"),
        ("min_tokens", 1.5, "Expected `int | null`, got `float`"),
        ("stop_token_ids", [0] * 65, "Expected `array` of length <= 64"),
        ("stop_token_ids[1]", [0, -1], "Expected `int` >= 0"),
        ("stop_token_ids[0]", ["5"], "Expected `int`, got `str`"),
        ("logprobs", 5, "Expected `bool | null`, got `int`"),
        ("logprobs", "true", "Expected `bool | null`, got `str`"),
        ("top_logprobs", 1, "top_logprobs needs logprobs to be true."),
        ("top_logprobs", 21, "Expected `int` <= 20"),
        ("top_logprobs", -1, "Expected `int` >= 0"),
        ("priority", 1.5, "Expected `int | null`, got `float`"),
        ("priority", 1001, "Expected `int` <= 1000"),
        ("timeout", 0, "Expected `float` > 0.0"),
        ("timeout", -1, "Expected `float` > 0.0"),
        ("timeout", "5s", "Expected `float | null`, got `str`"),
    ],
)
def test_wrong_value_is_400_and_named(
    appliance: RunningAppliance, field: str, value: object, reason: str
) -> None:
    name = field.partition("[")[0]

    response = post_chat(appliance.url, chat_body("capital") | {name: value})

    error = response.json()["error"]
    assert response.status_code == 400, response.text
    assert error["param"] == field
    assert error["message"].startswith(field)
    assert reason in error["message"]


def test_min_tokens_over_max_tokens_is_400(appliance: RunningAppliance) -> None:
    response = post_chat(appliance.url, chat_body("capital", min_tokens=3, max_tokens=2))

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "min_tokens"


def test_sdk_may_set_every_field(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": "capital"}],
        extra_body=EXTENSIONS,
        **FIELDS,
    )

    choice = answer.choices[0]
    assert choice.message.content == "The capital of France is Paris."
    assert choice.logprobs is not None and choice.logprobs.content == []


def test_answer_without_text_has_logprobs_that_are_empty(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": "silent"}], logprobs=True
    )

    choice = answer.choices[0]
    assert choice.message.content == ""
    assert choice.logprobs is not None and choice.logprobs.content == []


def test_sdk_may_set_every_field_of_a_stream(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": "capital"}],
        extra_body=EXTENSIONS,
        stream=True,
        **FIELDS,
    )

    choices = [chunk.choices[0] for chunk in stream]
    assert "".join(each.delta.content or "" for each in choices) == (
        "The capital of France is Paris."
    )
    assert [each.logprobs.content for each in choices if each.logprobs] == [[]] * 4


BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "capital"}]},
    "/v1/completions": {"prompt": "capital"},
}


def post(appliance: RunningAppliance, path: str, **fields: object) -> httpx.Response:
    body = {"model": "chat"} | BODIES[path] | fields
    return plain_http.post(appliance.url + path, json=body, timeout=30)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("value", ["yes", "true", 1, "on"])
def test_only_a_boolean_is_one(appliance: RunningAppliance, path: str, value: object) -> None:
    for field in ("stream", "ignore_eos"):
        error = post(appliance, path, **{field: value}).json()["error"]
        assert error["param"] == field

    options = {"include_usage": value}
    response = post(appliance, path, stream=True, stream_options=options)

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "stream_options.include_usage"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/chat/completions", "max_tokens"),
        ("/v1/chat/completions", "max_completion_tokens"),
        ("/v1/completions", "max_tokens"),
    ],
)
def test_more_tokens_than_the_server_allows_are_refused(
    appliance: RunningAppliance, path: str, field: str
) -> None:
    response = post(appliance, path, **{field: 10000})

    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, field)
    assert error["message"] == f"{field} is 10000; this server allows at most 1000."


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"n": "2"}, "n"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}, "tools"),
        ({"tool_choice": "always"}, "tool_choice"),
        ({"tool_choice": {"type": "custom"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
        ({"enable_thinking": "true"}, "enable_thinking"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "odd"}]}]}, "messages[0].content"),
    ],
)
def test_wrong_field_of_a_conversation_is_named(
    appliance: RunningAppliance, fields: dict[str, Any], param: str
) -> None:
    response = post(appliance, "/v1/chat/completions", **fields)

    error = response.json()["error"]
    assert response.status_code == 400, response.text
    assert error["param"].startswith(param), error


@pytest.mark.parametrize("field", FIELDS | EXTENSIONS)
def test_null_is_as_if_left_out(appliance: RunningAppliance, field: str) -> None:
    answer = post_chat(appliance.url, chat_body("capital", **{field: None})).json()

    assert answer["choices"][0]["message"]["content"] == "The capital of France is Paris."
    assert answer["choices"][0]["logprobs"] is None


def test_timeout_ends_the_request(appliance: RunningAppliance, client: OpenAI) -> None:
    def rejected() -> float:
        name = "vllm_mlx_requests_total"
        return metric(appliance.url, name, model="chat", api="chat", result="rejected")

    before, started = rejected(), time.monotonic()

    with pytest.raises(APIStatusError) as failure:
        client.chat.completions.create(
            model="chat",
            messages=[{"role": "user", "content": "stuck"}],
            extra_body={"timeout": 0.5},
        )

    assert time.monotonic() - started >= 0.4
    assert "longer than 0.5 s" in failure.value.message
    assert rejected() == before + 1


def test_timeout_ends_a_stream_with_an_error(appliance: RunningAppliance) -> None:
    with stream_chat(appliance.url, "forever", timeout=0.5) as response:
        events, _ = read_events(response.read().decode())

    assert "longer than 0.5 s" in events[-1]["error"]["message"]
