"""A worker keeps to its share of memory and gives back what a request held."""

import random
from functools import partial
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from appliance.engine.loader import load_body
from appliance.engine.wire import EngineSettings, MemoryLimits
from tests.engine.stage import Script, Stage
from tests.engine.worker_client import cancel, tokens
from tests.tiny_models import write_tiny_model

pytestmark = pytest.mark.mlx

_SHARE_BYTES = 64 * 2**20
# 32 KiB of keys and values a token, so 8 MiB for the least row of 256.
_WIDE = {
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 64,
    "max_position_embeddings": 4096,
}
_NUM_TOKENS = 8


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("wide"), "llama", **_WIDE)


def _open(folder: Path, engine: EngineSettings) -> tuple[Stage, int]:
    """Return a stage whose share is free whatever this process holds, and the share's end."""
    limit = mx.get_active_memory() + _SHARE_BYTES
    return Stage(load_body, folder, engine, MemoryLimits(memory_bytes=limit)), limit


def _prompts(count: int) -> list[list[int]]:
    rng = random.Random(count)
    return [[rng.randrange(4, 250) for _ in range(rng.randint(20, 60))] for _ in range(count)]


def _plain(folder: Path, prompts: list[list[int]]) -> list[list[int]]:
    model, _ = load_model(folder)
    return [
        [int(token) for token, _ in generate_step(mx.array(ids), model, max_tokens=_NUM_TOKENS)]
        for ids in prompts
    ]


def test_load_of_three_times_the_share_is_served_within_it(wide: Path) -> None:
    prompts = _prompts(24)
    expected = _plain(wide, prompts)
    stage, limit = _open(wide, EngineSettings(prefill_chunk_tokens=64))
    submits = [tokens(f"{n}", ids, _NUM_TOKENS) for n, ids in enumerate(prompts)]

    stage.play(stage.ended(*submits))

    assert [stage.answers[each.id].ids for each in submits] == expected
    assert max(step.memory_bytes for step in stage.steps()) <= limit
    assert 1 < max(step.batch_size for step in stage.steps()) < 8


def test_request_too_large_even_alone_is_refused_with_both_numbers(wide: Path) -> None:
    stage, limit = _open(wide, EngineSettings())

    stage.play(stage.ended(tokens("large", [9] * 2500, 8), tokens("small", [9] * 25, 8)))

    refused = stage.answers["large"].refused
    assert refused is not None
    assert refused.error.kind == "out_of_memory"
    assert refused.error.limit_bytes == limit
    assert refused.error.needed_bytes is not None
    assert refused.error.needed_bytes > limit
    assert len(stage.answers["small"].ids) == 8


def test_memory_is_back_one_step_after_a_lone_request_left(wide: Path) -> None:
    stage, _ = _open(wide, EngineSettings(prefill_chunk_tokens=32))
    left: list[int] = []

    def script() -> Script:
        for name, is_far in (("prefill", _reads), ("decode", _decodes)):
            yield [tokens(name, [7] * 200, 200)]
            yield from stage.until(partial(is_far, stage, name))
            yield [cancel(name)]
            yield []
            assert (stage.steps()[-1].batch_size, stage.steps()[-1].waiting) == (0, 0)
            mx.synchronize()
            left.append(mx.get_active_memory())

    stage.play(script())

    footprint = stage.body.footprint_bytes
    assert left == [pytest.approx(footprint, rel=0.01)] * 2
    assert stage.answers["prefill"].ids == []


def _reads(stage: Stage, name: str) -> bool:
    return name in stage.started() and stage.steps()[-1].memory_bytes > (
        stage.body.footprint_bytes + 2**20
    )


def _decodes(stage: Stage, name: str) -> bool:
    return len(stage.answers[name].ids) > 3


def _traffic(stage: Stage, numbers: range) -> Script:
    """Let short and long requests come, two a turn, and some of them go again."""
    rng = random.Random(numbers.start)
    names = []
    for number in numbers:
        size = rng.choice((1, 5, 40, 200))
        names.append(f"{number}")
        yield [tokens(names[-1], [rng.randrange(250) for _ in range(size)], rng.choice((1, 3, 30)))]
        yield from stage.until(lambda: stage.steps()[-1].batch_size < 16)
        if rng.random() < 0.3:
            yield [cancel(rng.choice(names))]
    yield from stage.until(lambda: stage.have_ended(names))


def test_memory_does_not_grow_over_500_requests(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path, "llama")
    stage = Stage(load_body, folder, EngineSettings(prefill_chunk_tokens=64, max_sequences=16))
    measured: list[int] = []

    def script() -> Script:
        for first, last in ((0, 100), (100, 500)):
            yield from _traffic(stage, range(first, last))
            yield []
            mx.clear_cache()
            measured.append(mx.get_active_memory())

    stage.play(script())

    assert len(stage.answers) == 500
    assert measured[1] == pytest.approx(measured[0], rel=0.02)
