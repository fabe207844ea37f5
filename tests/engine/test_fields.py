"""Every sampling field changes its own row on both engine kinds, and never another's."""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from appliance.chat.request import SamplingParams
from appliance.engine.device import Device
from appliance.engine.loader import load_body
from appliance.engine.wire import (
    EngineKind,
    EngineSettings,
    Limits,
    MemoryLimits,
    Submit,
    TokenLogprob,
)
from tests.engine.stage import CPU, GPU, Script, Stage, open_as
from tests.engine.worker_client import GREEDY, MODEL, Answer, tokens
from tests.tiny_models import write_tiny_model

pytestmark = pytest.mark.mlx

_PROMPT = [5, 80, 33, 12, 200, 7]
_COUNT = 16
_LOVED = {9: 1000.0}
_KINDS: tuple[EngineKind, ...] = ("batched", "simple")


@dataclass(frozen=True)
class Original:
    """A model whose greedy answer meets its own end token, and what it answers by itself."""

    folder: Path
    answer: list[int]
    end_index: int

    @cached_property
    def logits(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """What the answer's tokens were chosen from: (tokens, vocabulary)."""
        model, _ = load_model(self.folder)
        ids = [*_PROMPT, *self.answer[:-1]]
        return np.array(model(mx.array([ids]))[0, len(_PROMPT) - 1 :]).astype(np.float64)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp("fields")
    model, _ = load_model(write_tiny_model(folder, "llama"))
    steps = generate_step(mx.array(_PROMPT), model, max_tokens=_COUNT)
    answer = [int(token) for token, _ in steps]
    end = next(index for index in range(4, _COUNT) if answer[index] not in answer[:index])
    return Original(write_tiny_model(folder, "llama", answer[end]), answer, end)


def _ask(original: Original, kind: EngineKind, *submits: Submit) -> list[Answer]:
    stage = Stage(load_body, original.folder, EngineSettings(kind=kind, max_sequences=8))
    stage.play(stage.ended(*submits))
    return [stage.answers[submit.id] for submit in submits]


def _drawn(**wishes: Any) -> SamplingParams:  # noqa: ANN401
    return SamplingParams(**{"temperature": 1.5, "seed": 3, **wishes})


def _wish(name: str, sampling: SamplingParams = GREEDY, count: int = _COUNT, **more: Any) -> Submit:  # noqa: ANN401
    return tokens(name, _PROMPT, count, sampling, **more)


def _wishes(original: Original) -> dict[str, Submit]:
    """One request for each field, and the two that they are told from."""
    stop = original.answer[2]
    wishes = [
        _wish("greedy"),
        _wish("drawn", _drawn()),
        _wish("temperature", _drawn(temperature=2.5)),
        _wish("seed", _drawn(seed=4)),
        _wish("top_p", _drawn(top_p=0.3)),
        _wish("top_k", _drawn(top_k=2)),
        _wish("min_p", _drawn(min_p=0.5)),
        _wish("repetition_penalty", SamplingParams(0.0, repetition_penalty=0.01)),
        _wish("frequency_penalty", SamplingParams(0.0, frequency_penalty=300.0, logit_bias=_LOVED)),
        _wish("presence_penalty", SamplingParams(0.0, presence_penalty=2000.0, logit_bias=_LOVED)),
        _wish("logit_bias", SamplingParams(0.0, logit_bias=_LOVED)),
        _wish("stop_token_ids", stop_token_ids=(stop,)),
        _wish("ignore_eos", ignore_eos=False),
        _wish("min_tokens", ignore_eos=False, min_tokens=original.end_index + 4),
        _wish("max_tokens", count=2),
    ]
    return {wish.id: wish for wish in wishes}


@pytest.fixture(scope="module")
def alone(original: Original) -> dict[str, Answer]:
    """What is answered to each wish while there is no other."""
    wishes = _wishes(original)
    stage = Stage(load_body, original.folder, EngineSettings(max_sequences=8))
    stage.play(chain.from_iterable(stage.ended(wish) for wish in wishes.values()))
    return {name: stage.answers[name] for name in wishes}


@pytest.mark.parametrize("kind", _KINDS)
def test_every_field_changes_the_answer_and_nobody_elses(
    original: Original, alone: dict[str, Answer], kind: EngineKind
) -> None:
    wishes = _wishes(original)

    crowd = dict(zip(wishes, _ask(original, kind, *wishes.values()), strict=True))

    for name, answer in crowd.items():
        assert (answer.ids, answer.end) == (alone[name].ids, alone[name].end), name
    told = {tuple(answer.ids): name for name, answer in crowd.items()}
    assert list(told.values()) == list(wishes)
    assert crowd["greedy"].ids == original.answer
    assert crowd["logit_bias"].ids == [9] * _COUNT
    assert crowd["stop_token_ids"].ids == original.answer[:3]
    assert crowd["ignore_eos"].ids == original.answer[: original.end_index + 1]
    assert original.answer[original.end_index] not in crowd["min_tokens"].ids[:-1]
    assert crowd["max_tokens"].ids == original.answer[:2]


def _near(entry: TokenLogprob, expected: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    return abs(entry.logprob - float(expected[entry.id])) < 1e-4


@pytest.mark.parametrize("kind", _KINDS)
def test_logprobs_are_those_of_the_models_own_logits(original: Original, kind: EngineKind) -> None:
    bent = SamplingParams(0.0, frequency_penalty=1e-9, logit_bias={3: 1e-6})
    mates = [_wish("plain"), _wish("none-of-it", _drawn())]
    expected = original.logits - np.log(np.exp(original.logits).sum(-1, keepdims=True))

    answers = _ask(
        original, kind, _wish("tops", logprobs=4), _wish("own", bent, logprobs=0), *mates
    )

    for answer, num_tops in zip(answers[:2], (4, 0), strict=True):
        assert answer.ids == original.answer
        assert [entry.id for entry in answer.logprobs] == answer.ids
        for entry, row in zip(answer.logprobs, expected, strict=True):
            assert _near(entry, row)
            assert [top.id for top in entry.top] == list(np.argsort(-row)[:num_tops])
            assert all(_near(top, row) for top in entry.top)
    assert [answer.logprobs for answer in answers[2:]] == [[], []]


def _seeded(seed: int, prompt: list[int]) -> Submit:
    sampling = _drawn(seed=seed, presence_penalty=1.0)
    return tokens(f"drawn-{seed}", prompt, 40, sampling, logprobs=1, priority=seed // 2)


@pytest.mark.parametrize("device", [CPU, GPU], ids=["in_turns", "ahead"])
def test_drawn_answer_is_the_same_after_a_preemption(original: Original, device: Device) -> None:
    wishes = [_seeded(0, _PROMPT), _seeded(1, _PROMPT), _seeded(2, _PROMPT * 20)]
    alone = [_ask(original, "simple", each)[0] for each in wishes]
    engine = EngineSettings(max_sequences=3, prefill_chunk_tokens=16)
    stage = Stage(open_as(device), original.folder, engine)

    def script() -> Script:
        yield wishes[:2]
        yield from stage.until(lambda: len(stage.answers["drawn-1"].ids) > 5)
        yield wishes[2:]
        yield from stage.until(lambda: "drawn-2" in stage.steps()[-1].started)
        yield [Limits(MODEL, MemoryLimits(memory_bytes=stage.body.footprint_bytes + 1))]
        yield from stage.until(lambda: bool(stage.steps()[-1].preempted))
        yield [Limits(MODEL, MemoryLimits(memory_bytes=2**40))]
        yield from stage.until(lambda: stage.have_ended(each.id for each in wishes))

    stage.play(script())

    answers = [stage.answers[each.id] for each in wishes]
    assert stage.started().count("drawn-1") > 1
    assert [answer.ids for answer in answers] == [answer.ids for answer in alone]
    for answer, own in zip(answers, alone, strict=True):
        got = [entry.logprob for entry in answer.logprobs]
        assert got == pytest.approx([entry.logprob for entry in own.logprobs], abs=1e-4)
