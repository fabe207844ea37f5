"""Completions of a real model: its text, its tokens and their probabilities."""

from collections.abc import Iterator

import pytest
from openai import BadRequestError, OpenAI
from openai.types import CompletionChoice

from appliance.chat.tokenizer import Tokenizer
from tests.appliance_server import RunningAppliance
from tests.packages import smollm2_directory

pytestmark = [pytest.mark.mlx, pytest.mark.registry, pytest.mark.timeout(300)]

FRANCE = "The capital of France is"
TOKENS = [" Paris", ".", "\n", "\n", "The"]
PARIS = "".join(TOKENS)


@pytest.fixture(scope="module")
def client(smollm2: RunningAppliance) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{smollm2.url}/v1", api_key="any", max_retries=0) as openai:
        yield openai


@pytest.fixture(scope="module")
def ids() -> list[int]:
    return Tokenizer.load(smollm2_directory()).encode(FRANCE)


def complete(client: OpenAI, prompt: object, **fields: object) -> list[CompletionChoice]:
    body = {"prompt": prompt, "max_tokens": len(TOKENS)} | fields
    return client.completions.create(model="chat", prompt="", extra_body=body).choices


def test_text_goes_on_as_its_token_ids_do(client: OpenAI, ids: list[int]) -> None:
    assert [each.text for each in complete(client, FRANCE)] == [PARIS]
    assert [each.text for each in complete(client, ids)] == [PARIS]
    assert complete(client, [FRANCE, "x"])[0].text == PARIS


def test_token_ids_are_echoed_as_text(client: OpenAI, ids: list[int]) -> None:
    choices = complete(client, [ids, ids[:2]], echo=True, n=2, max_tokens=1)
    chunks = client.completions.create(
        model="chat", prompt=ids, echo=True, max_tokens=1, stream=True
    )

    assert [each.text for each in choices[:2]] == [FRANCE + " Paris"] * 2
    assert all(each.text.startswith("The capital") for each in choices[2:])
    assert "".join(chunk.choices[0].text for chunk in chunks) == FRANCE + " Paris"


def test_logprobs_are_lists_as_long_as_the_answer(client: OpenAI) -> None:
    logprobs = complete(client, FRANCE, logprobs=2)[0].logprobs

    assert logprobs is not None and logprobs.tokens == TOKENS
    assert logprobs.text_offset == [0, 6, 7, 8, 9]
    assert logprobs.token_logprobs is not None and logprobs.top_logprobs is not None
    for token, logprob, tops in zip(
        TOKENS, logprobs.token_logprobs, logprobs.top_logprobs, strict=True
    ):
        assert len(tops) == 2
        assert tops[token] == logprob == max(tops.values())


def test_streamed_logprobs_are_those_of_the_whole_answer(client: OpenAI) -> None:
    whole = complete(client, FRANCE, logprobs=1)[0].logprobs

    chunks = client.completions.create(
        model="chat", prompt=FRANCE, max_tokens=len(TOKENS), logprobs=1, stream=True
    )

    parts = [logprobs for chunk in chunks if (logprobs := chunk.choices[0].logprobs)]
    assert whole is not None
    assert [token for part in parts for token in part.tokens or ()] == whole.tokens
    assert [at for part in parts for at in part.text_offset or ()] == whole.text_offset


def test_choices_differ_and_a_seed_repeats_them(client: OpenAI) -> None:
    fields = {"n": 3, "seed": 5, "temperature": 1.5}

    first = [each.text for each in complete(client, FRANCE, **fields)]
    again = [each.text for each in complete(client, FRANCE, **fields)]

    assert first == again
    assert len(set(first)) > 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": [999999]}, "prompt"),
        ({"prompt": [5], "suffix": "x"}, "suffix"),
        ({"prompt": "x", "suffix": "y"}, "suffix"),
    ],
)
def test_prompt_that_cannot_be_read_is_named(
    client: OpenAI, fields: dict[str, object], param: str
) -> None:
    with pytest.raises(BadRequestError) as refusal:
        complete(client, **{"prompt": "x"} | fields)

    assert refusal.value.param == param
