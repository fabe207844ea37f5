"""A greedy answer is the model's own, whatever else happens: 300 random schedules."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import mlx.core as mx
import msgspec
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from appliance.chat.tokenizer import Tokenizer
from appliance.engine.device import Device
from appliance.engine.wire import EngineSettings, Limits, MemoryLimits, Step, Submit, ToWorker
from tests.engine.stage import CPU, GPU, Script, Stage, open_as
from tests.engine.worker_client import MODEL, cancel, tokens
from tests.packages import smollm2_directory
from tests.tiny_models import VOCAB_SIZE, write_tiny_model

pytestmark = pytest.mark.mlx

_MOST_TOKENS = 16
_LENGTHS = (1, 1, 2, 7, 9, 15, 17, 22, 22, 40, 60, 60)
_TELLING_TOKENS = 12
# What a real model goes on with depends on the third last token.
_TEXTS = (
    "The",
    "The capital of France is Paris, the capital of Italy is",
    "Count on: 11, 12, 13, 14, 15, 16, 17, 18,",
)
_ROOMY = 2**40
_ENGINES = (
    (EngineSettings(max_sequences=3, prefill_chunk_tokens=16), CPU),
    (EngineSettings(max_sequences=6, prefill_chunk_tokens=64), GPU),
    (EngineSettings(max_sequences=8, prefill_chunk_tokens=33), CPU),
)
# How many schedules each engine plays; one row is enough where rows cannot be batched.
_SCHEDULES = {
    "llama": 25,
    "qwen3": 12,
    "gemma3_text": 20,
    "mamba2": 12,
    "qwen3_moe": 12,
    "falcon_h1": 12,
    "llama4": 6,
}


@dataclass
class Original:
    """A model by itself: prompts, and what plain mlx-lm answers to each."""

    folder: Path
    prompts: list[list[int]]
    num_tokens: int = _MOST_TOKENS

    @cached_property
    def answers(self) -> list[list[int]]:
        """The plain answers; a prompt with one wrong token has another one."""
        model, _ = load_model(self.folder)
        answers = [_generate(model, ids, self.num_tokens) for ids in self.prompts]
        telling = min(_TELLING_TOKENS, self.num_tokens)
        for ids, answer in zip(self.prompts, answers, strict=True):
            place = max(0, len(ids) - 3)
            wrong = [*ids[:place], (ids[place] + 1) % (VOCAB_SIZE - 2), *ids[place + 1 :]]
            assert _generate(model, wrong, telling) != answer[:telling]
        return answers


def _random_prompts() -> list[list[int]]:
    """Return prompts of the lengths wanted, of which no two are alike."""
    rng = random.Random(len(_LENGTHS))
    made = [[rng.randrange(VOCAB_SIZE - 2) for _ in range(size)] for size in _LENGTHS]
    assert len({tuple(ids) for ids in made}) == len(made)
    return made


def _generate(model: Any, ids: list[int], count: int) -> list[int]:  # noqa: ANN401
    return [int(token) for token, _ in generate_step(mx.array(ids), model, max_tokens=count)]


@dataclass
class Asked:
    """A request, the answer that it has alone, and whether it was cancelled meanwhile."""

    submit: Submit
    expected: list[int]
    is_cancelled: bool = False


class Schedule:
    """Requests that come, and some that go, at random turns; at times with too little memory."""

    def __init__(self, original: Original, number: int, solo_bytes: int, footprint: int) -> None:
        self._rng = rng = random.Random(number)
        self.is_tight = number % 2 == 0
        self._roomy = _limit(_ROOMY)
        self._tight = _limit(footprint + int(solo_bytes * rng.uniform(1.0, 1.05)))
        self.asked = [
            self._ask(original, f"{number}-{index}") for index in range(rng.randint(2, 9))
        ]

    def play(self, stage: Stage) -> Script:
        """Send everything at its turn, and wait for the last end."""
        rng = self._rng
        frames: list[tuple[int, ToWorker]] = [(0, self._roomy)]
        for asked in self.asked:
            turn = rng.choice((1, 1, rng.randint(1, 30)))
            frames.append((turn, asked.submit))
            if asked.is_cancelled:
                frames.append((turn + rng.choice((0, 1, 2, rng.randint(0, 30))), _leave(asked)))
            if self.is_tight:
                frames.append((turn + rng.choice((1, 2)), self._tight))
                frames.append((turn + rng.randint(3, 9), self._roomy))
        frames.sort(key=lambda each: each[0])
        for turn in range(frames[-1][0] + 1):
            yield [frame for when, frame in frames if when == turn]
        yield from stage.until(lambda: stage.have_ended(each.submit.id for each in self.asked))

    def check(self, stage: Stage) -> None:
        """Assert that every answer is the model's own."""
        for asked in self.asked:
            answer = stage.answers[asked.submit.id]
            assert answer.refused is None
            if asked.is_cancelled and answer.end.reason == "cancelled":
                assert answer.ids == asked.expected[: len(answer.ids)]
            else:
                assert (answer.ids, answer.end.reason) == (asked.expected, "length")

    def _ask(self, original: Original, name: str) -> Asked:
        rng = self._rng
        index = rng.randrange(len(original.prompts))
        count = rng.choice((1, 2, original.num_tokens, rng.randint(1, original.num_tokens)))
        submit = tokens(name, original.prompts[index], count, priority=rng.choice((0, 0, 1)))
        return Asked(submit, original.answers[index][:count], rng.random() < 0.25)


def _limit(share: int) -> Limits:
    return Limits(MODEL, MemoryLimits(memory_bytes=share))


def _leave(asked: Asked) -> ToWorker:
    return cancel(asked.submit.id)


def _solo_bytes(stage: Stage, longest: list[int], count: int) -> Script:
    """Ask for more than there is, so that the refusal says how much the longest needs alone."""
    footprint = stage.body.footprint_bytes
    yield [Limits(MODEL, MemoryLimits(memory_bytes=footprint))]
    yield from stage.ended(tokens("solo", longest, count))


def _play_all(stage: Stage, original: Original, numbers: range) -> Callable[[], Script]:
    # Before the worker's share bounds what this process may hold.
    assert original.answers

    def script() -> Script:
        yield from _solo_bytes(stage, original.prompts[-1], original.num_tokens)
        refused = stage.answers["solo"].refused
        needed = refused.error.needed_bytes if refused else None
        footprint = stage.body.footprint_bytes
        for number in numbers:
            schedule = Schedule(original, number, (needed or footprint) - footprint, footprint)
            yield from schedule.play(stage)
            schedule.check(stage)

    return script


def _num_preempted(steps: list[Step]) -> int:
    return sum(len(step.preempted) for step in steps)


@pytest.mark.parametrize("architecture", _SCHEDULES)
def test_answers_are_the_models_own_in_any_schedule(tmp_path: Path, architecture: str) -> None:
    original = Original(write_tiny_model(tmp_path, architecture), _random_prompts())
    count = _SCHEDULES[architecture]
    preempted = 0

    for index, (engine, device) in enumerate(_ENGINES):
        stage = Stage(open_as(device), original.folder, engine)
        stage.play(_play_all(stage, original, range(index * count, (index + 1) * count))())
        preempted += _num_preempted(stage.steps())

    if architecture == "llama4":
        # Rows of one at a time are in nobody's way.
        assert preempted == 0
    elif architecture != "mamba2":
        # Its states do not grow, so that who is let in has to go at times only.
        assert preempted > 0


@pytest.fixture(scope="module")
def real_original() -> Original:
    folder = smollm2_directory()
    tokenizer = Tokenizer.load(folder)
    return Original(folder, [tokenizer.encode(text) for text in _TEXTS], 8)


@pytest.mark.registry
@pytest.mark.timeout(150)
@pytest.mark.parametrize("device", [CPU, GPU], ids=["in_turns", "ahead"])
def test_answers_are_a_real_models_own_in_any_schedule(
    real_original: Original, device: Device
) -> None:
    original = real_original
    engine = msgspec.structs.replace(_ENGINES[2][0], max_context_tokens=256)
    stage = Stage(open_as(device), original.folder, engine)

    stage.play(_play_all(stage, original, range(3))())

    assert len(stage.answers) > 3
