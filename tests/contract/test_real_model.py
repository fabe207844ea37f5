"""A real language model behind the official SDK."""

from collections.abc import Iterator

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model
from openai import BadRequestError, OpenAI

from appliance.chat.tokenizer import Tokenizer
from tests.appliance_server import RunningAppliance, wait_until
from tests.contract.http import chat_body, metric, post_chat, stream_chat
from tests.packages import smollm2_directory

pytestmark = [pytest.mark.mlx, pytest.mark.registry]

FRANCE = "What is the capital of France?"


@pytest.fixture
def client(smollm2: RunningAppliance) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{smollm2.url}/v1", api_key="any", max_retries=0) as openai:
        yield openai


def test_model_knows_the_capital_of_france(client: OpenAI) -> None:
    whole = client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": FRANCE}], temperature=0
    )
    stream = client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": FRANCE}], temperature=0, stream=True
    )

    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text == whole.choices[0].message.content == "The capital of France is Paris."
    assert whole.choices[0].finish_reason == "stop"


def test_greedy_answer_equals_plain_generation(smollm2: RunningAppliance) -> None:
    folder = smollm2_directory()
    tokenizer = Tokenizer.load(folder)
    model, _ = load_model(folder)
    answer = post_chat(
        smollm2.url,
        chat_body("Count to five and explain 🌊 waves.", max_tokens=32, ignore_eos=True),
    ).json()
    prompt = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nCount to five and explain 🌊 waves.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )

    def plain(text: str) -> list[int]:
        ids = mx.array(tokenizer.encode(text))
        return [int(token) for token, _ in generate_step(ids, model, max_tokens=32)]

    expected = plain(prompt)
    assert expected != plain(prompt.replace("five", "six"))
    assert answer["usage"]["prompt_tokens"] == len(tokenizer.encode(prompt))
    assert answer["choices"][0]["message"]["content"] == tokenizer.decode(expected)
    assert answer["usage"]["completion_tokens"] == 32


def test_sequence_is_gone_when_its_client_leaves_in_prefill(smollm2: RunningAppliance) -> None:
    def batch_size() -> float:
        return metric(smollm2.url, "vllm_mlx_batch_size", model="chat")

    first_texts = metric(smollm2.url, "vllm_mlx_time_to_first_token_seconds_count", model="chat")

    with stream_chat(smollm2.url, "word " * 3000):
        wait_until(lambda: batch_size() == 1, what="the prompt is being read")

    wait_until(lambda: batch_size() == 0, 5.0, "the sequence is gone")
    assert first_texts == metric(
        smollm2.url, "vllm_mlx_time_to_first_token_seconds_count", model="chat"
    )


def test_answer_in_a_crowd_is_the_answer_alone(smollm2: RunningAppliance) -> None:
    body = chat_body("Name three colours.", max_tokens=16)
    alone = post_chat(smollm2.url, body).json()["choices"][0]["message"]["content"]

    with stream_chat(smollm2.url, "Tell me a story.", ignore_eos=True) as crowd:
        chunks = crowd.iter_raw()
        next(chunks)
        together = post_chat(smollm2.url, body).json()["choices"][0]["message"]["content"]

    assert together == alone


def test_prompt_beyond_the_context_is_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as refusal:
        client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": "word " * 9000}]
        )

    assert refusal.value.code == "context_length_exceeded"
    assert "8192" in refusal.value.message
