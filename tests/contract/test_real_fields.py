"""Every sampling field changes what a real model says, over HTTP and through the official SDK."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletion

from appliance.chat.tokenizer import Tokenizer
from tests.appliance_server import RunningAppliance
from tests.packages import smollm2_directory

pytestmark = [pytest.mark.mlx, pytest.mark.registry, pytest.mark.timeout(300)]

FRANCE = "What is the capital of France?"
PARIS = "The capital of France is Paris."


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(smollm2_directory())


@pytest.fixture
def client(smollm2: RunningAppliance) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{smollm2.url}/v1", api_key="any", max_retries=0) as openai:
        yield openai


def ask(client: OpenAI, **fields: object) -> ChatCompletion:
    return client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": FRANCE}],
        extra_body={"max_tokens": 24} | fields,
    )


def answer_text(client: OpenAI, **fields: object) -> str:
    return ask(client, **fields).choices[0].message.content or ""


def ask_with_logprobs(client: OpenAI, stop: str | None = None) -> ChatCompletion:
    return client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": FRANCE}],
        logprobs=True,
        top_logprobs=3,
        stop=stop,
    )


def test_bias_forbids_a_token(client: OpenAI, tokenizer: Tokenizer) -> None:
    (paris,) = tokenizer.encode(" Paris")

    assert answer_text(client) == PARIS
    assert "Paris" not in answer_text(client, logit_bias={str(paris): -100})


def test_bias_forces_a_token(client: OpenAI, tokenizer: Tokenizer) -> None:
    (paris,) = tokenizer.encode(" Paris")

    assert answer_text(client, logit_bias={str(paris): 100}, max_tokens=3) == " Paris" * 3


@pytest.mark.parametrize("fields", [{"presence_penalty": 2}, {"temperature": 2, "seed": 7}])
def test_field_changes_the_answer(client: OpenAI, fields: dict[str, float | int]) -> None:
    def ask(fields: dict[str, float | int]) -> str:
        return answer_text(client, ignore_eos=True, **fields)

    with ThreadPoolExecutor(3) as pool:
        plain, changed, again = pool.map(ask, ({}, fields, fields))

    assert changed != plain
    assert changed == again


def test_min_tokens_keeps_the_answer_going(client: OpenAI) -> None:
    usage = ask(client, min_tokens=16).usage

    assert usage is not None
    assert 16 <= usage.completion_tokens <= 24


def test_stop_token_ends_the_answer_without_its_text(client: OpenAI, tokenizer: Tokenizer) -> None:
    stops = tokenizer.encode(" Paris")

    choice = ask(client, stop_token_ids=stops).choices[0]

    assert choice.message.content == "The capital of France is"
    assert choice.finish_reason == "stop"


def test_logprobs_are_those_of_the_text(client: OpenAI, tokenizer: Tokenizer) -> None:
    choice = ask_with_logprobs(client).choices[0]

    assert choice.logprobs is not None and choice.logprobs.content is not None
    tokens = choice.logprobs.content
    assert [token.token for token in tokens] == [
        tokenizer.decode([number]) for number in tokenizer.encode(PARIS)
    ]
    for token in tokens:
        tops = [each.logprob for each in token.top_logprobs]
        assert token.top_logprobs[0].token == token.token
        assert token.logprob == tops[0] < 0
        assert len(tops) == 3 and tops == sorted(tops, reverse=True)


@pytest.mark.parametrize("stop", [None, "ance", "is Par"])
def test_streamed_logprobs_are_those_of_the_whole_answer(client: OpenAI, stop: str | None) -> None:
    whole = ask_with_logprobs(client, stop).choices[0]
    chunks = client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": FRANCE}],
        logprobs=True,
        top_logprobs=3,
        stop=stop,
        stream=True,
    )

    streamed = [
        token
        for chunk in chunks
        for token in (chunk.choices[0].logprobs and chunk.choices[0].logprobs.content) or ()
    ]
    assert whole.logprobs is not None
    assert streamed == whole.logprobs.content
