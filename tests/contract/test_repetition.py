"""An answer that goes round in circles is ended where the manifest asks for it, and says so."""

import httpx
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.appliance_server import RunningAppliance, wait_until
from tests.contract.http import metric, stream_chat

# Thousands of pieces until somebody is sure.
pytestmark = pytest.mark.slow

STOPS = "vllm_mlx_repetition_stops_total"
CIRCLES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "circles"}]


def test_circles_end_soon_with_a_reason_of_their_own(client: OpenAI) -> None:
    whole = client.chat.completions.create(model="guarded", messages=CIRCLES)
    chunks = list(client.chat.completions.create(model="guarded", messages=CIRCLES, stream=True))

    (choice,), last = whole.choices, chunks[-1].choices[0]
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert [each.finish_reason for each in (choice, last)] == ["stop", "stop"]
    assert [(each.model_extra or {})["stop_reason"] for each in (choice, last)] == [
        "repetition"
    ] * 2
    for text in (choice.message.content or "", streamed):
        assert text.startswith("check check ")
        assert len(text) < 300 * len("check ")


def test_circles_are_counted_and_logged(appliance: RunningAppliance) -> None:
    before = metric(appliance.url, STOPS, model="guarded")

    with stream_chat(appliance.url, "circles", model="guarded") as response:
        text = response.read().decode()

    assert '"finish_reason":"stop","stop_reason":"repetition"' in text
    wait_until(lambda: metric(appliance.url, STOPS, model="guarded") > before, what="it counts")
    assert any(
        line["model"] == "guarded" and line["is_repetition"]
        for line in appliance.logs()
        if line["event"] == "request_finished"
    )


def test_circles_go_on_where_nobody_asked_for_the_guard(http: httpx.Client) -> None:
    body = {"model": "agent", "messages": CIRCLES}

    answer = http.post("/v1/chat/completions", json=body).json()

    assert answer["choices"][0]["message"]["content"] == "check " * 900
    assert "stop_reason" not in answer["choices"][0]


def test_other_dialects_end_too(http: httpx.Client) -> None:
    asked = {"model": "guarded", "max_tokens": 900}

    text = http.post("/v1/completions", json=asked | {"prompt": "circles"}).json()["choices"][0]
    message = http.post("/v1/messages", json=asked | {"messages": CIRCLES}).json()
    response = http.post("/v1/responses", json={"model": "guarded", "input": "circles"}).json()

    assert (text["finish_reason"], text["stop_reason"]) == ("stop", "repetition")
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    assert response["status"] == "completed"
    assert max(each["usage"]["output_tokens"] for each in (message, response)) < 300
