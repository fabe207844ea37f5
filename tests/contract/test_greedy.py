"""Greedy answers over HTTP are those of plain mlx-lm, token for token, on five architectures."""

import json
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from tests.appliance_server import RunningAppliance, running_appliance
from tests.contract.http import chat_body, post_chat, read_events, stream_chat
from tests.tiny_models import VOCAB_SIZE, write_tiny_model

pytestmark = pytest.mark.mlx

ARCHITECTURES = ("llama", "qwen3", "gemma3_text", "mamba2", "qwen3_moe")
NUM_TOKENS = 40
FIRST = 0x4E00
PROMPT = [(index * 37 + 11) % VOCAB_SIZE for index in range(50)]


def to_text(ids: list[int]) -> str:
    return "".join(chr(FIRST + token) for token in ids)


def to_ids(text: str) -> list[int]:
    return [ord(character) - FIRST for character in text]


def write_letter_tokenizer(folder: Path) -> None:
    """Give the model a tokenizer of one letter a token, so that text and ids are the same thing."""
    vocabulary = {to_text([token]): token for token in range(VOCAB_SIZE)}
    letters = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": letters,
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": to_text([0])},
    }
    template = {"chat_template": "{{ messages[-1]['content'] }}"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(template))


def plain_answer(folder: Path, ids: list[int]) -> list[int]:
    model, _ = load_model(folder)
    return [int(token) for token, _ in generate_step(mx.array(ids), model, max_tokens=NUM_TOKENS)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for architecture in ARCHITECTURES:
        made[architecture] = tmp_path_factory.mktemp(architecture)
        write_tiny_model(made[architecture], architecture)
        write_letter_tokenizer(made[architecture])
    return made


@pytest.fixture(scope="module")
def appliance(folders: dict[str, Path]) -> Iterator[RunningAppliance]:
    models = "".join(
        f"  - {{name: {name}, source: 'path:{folder}', engine: {{prefill_chunk_tokens: 16}}}}\n"
        for name, folder in folders.items()
    )
    with running_appliance(f"version: 1\nmodels:\n{models}", {}) as running:
        yield running


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_answer_equals_plain_generation(
    appliance: RunningAppliance, folders: dict[str, Path], architecture: str
) -> None:
    wrong = [*PROMPT[:48], PROMPT[48] + 1, PROMPT[49]]
    expected = plain_answer(folders[architecture], PROMPT)
    assert expected != plain_answer(folders[architecture], wrong)
    fields = {"model": architecture, "temperature": 0, "max_tokens": NUM_TOKENS}

    whole = post_chat(appliance.url, chat_body(to_text(PROMPT), **fields)).json()
    with stream_chat(appliance.url, to_text(PROMPT), **fields) as response:
        events, _ = read_events(response.read().decode())

    streamed = "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1])
    assert to_ids(whole["choices"][0]["message"]["content"]) == expected
    assert to_ids(streamed) == expected
    assert whole["usage"]["prompt_tokens"] == len(PROMPT)
    assert whole["usage"]["completion_tokens"] == NUM_TOKENS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 1.5),
        ("top_p", 0.2),
        ("top_k", 2),
        ("min_p", 0.5),
        ("seed", 4),
        ("presence_penalty", 2),
        ("logit_bias", {"9": 100}),
    ],
)
def test_sampling_field_changes_the_answer(
    appliance: RunningAppliance, field: str, value: object
) -> None:
    base = {"model": "llama", "temperature": 1.2, "seed": 3, "max_tokens": NUM_TOKENS}
    prompt = to_text(PROMPT)

    first, again, other = (
        post_chat(appliance.url, chat_body(prompt, **fields)).json()["choices"][0]["message"]
        for fields in (base, base, base | {field: value})
    )

    assert first == again
    assert other != first


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response_format", {"type": "json_object"}),
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
    ],
)
def test_field_that_the_model_cannot_honour_is_refused_by_name(
    appliance: RunningAppliance, field: str, value: object
) -> None:
    response = post_chat(
        appliance.url, chat_body(to_text(PROMPT), **{"model": "llama", field: value})
    )

    assert response.status_code == 400
    assert response.json()["error"]["param"] == field


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("num_prompt", "max_tokens"), [(300, None), (250, 20)], ids=["prompt", "prompt and answer"]
)
def test_prompt_beyond_the_context_is_400(
    appliance: RunningAppliance, num_prompt: int, max_tokens: int | None, *, stream: bool
) -> None:
    text = to_text([1] * num_prompt)
    fields = {"model": "llama", "max_tokens": max_tokens, "stream": stream}

    error = post_chat(appliance.url, chat_body(text, **fields)).json()["error"]

    assert error["code"] == "context_length_exceeded"
    assert "256 tokens" in error["message"] and str(num_prompt) in error["message"]


def test_answer_without_a_limit_ends_with_the_context(appliance: RunningAppliance) -> None:
    body = chat_body(to_text(PROMPT), model="llama", temperature=0, ignore_eos=True)

    answer = post_chat(appliance.url, body).json()

    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == 256
