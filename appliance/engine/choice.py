"""Choose how a model's rows are stepped together: by trying it, and by measuring the ways."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import structlog
from mlx import nn
from mlx_lm.models.cache import make_prompt_cache

from appliance.engine.foreign import FOREIGN_ERRORS
from appliance.engine.ring import Layout, kv_shape
from appliance.engine.ring_batch import RingBatch, Way
from appliance.engine.row_batch import RowBatch

# Unlike lengths. After two steps the first leaves, and the others go on round the end of a ring
# that is small.
_TRIAL_PROMPTS = ((1, 2, 3, 1, 2), (), (3, 1))
_TRIAL_TOKENS = (1, 2, 3, 1)
_STEPS_OF_FIRST = 2
_SMALL_RING = 8
# A ring in which a model that looks at places instead of ages would see its block borders.
_LARGE_RING = 4096
_MOST_TRIAL_BYTES = 2**26
_COLUMNS = 512
_SIZES = (1, 8, 32)
_TIMED_STEPS = 5
# How far two computations of the same may be apart, of the length of the result.
_TOLERANCE = {mx.float32: 1e-3}
_COARSE_TOLERANCE = 5e-2
# CPU compiles with a C++ compiler, for seconds; every step there is bound by arithmetic.
_CPU_WAYS = (Way(is_windowed=True),)
_GPU_WAYS = (
    Way(is_windowed=True),
    Way(is_compiled=True),
    Way(is_twin=True),
    Way(is_compiled=True, is_twin=True),
)

log = structlog.get_logger()


@dataclass(frozen=True)
class Trial:
    """What every way is tried with: the prompts' caches, which a join only reads, the logits that
    each row must give, and the columns of the larger ring."""

    caches: list[list[Any]]
    expected: list[mx.array]
    large_ring: int

    @classmethod
    def of(cls, model: nn.Module) -> "Trial":
        """Read the prompts once."""
        caches = [_read(model, prompt) for prompt in _TRIAL_PROMPTS]
        column_bytes = max(1, kv_shape(caches[0]).batch_bytes(len(_TRIAL_PROMPTS), 1))
        return cls(
            caches,
            [_logits_alone(model, prompt) for prompt in _TRIAL_PROMPTS],
            max(_SMALL_RING, min(_LARGE_RING, _MOST_TRIAL_BYTES // column_bytes)),
        )


def choose_batch(
    model: nn.Module, layouts: list[Layout] | None, max_sequences: int
) -> RingBatch | RowBatch:
    """Return what steps this model: rings if its layers take them and give the same logits.

    On a GPU every way of stepping is timed for some batch sizes, and each size keeps the fastest.
    """
    if layouts is None:
        log.warning("batching_unavailable", reason="its caches are of a kind that has no ring")
        return RowBatch(model)
    trial = Trial.of(model)
    able = [way for way in ways() if _agrees(_only(model, layouts, way), trial)]
    # A compiled step needs its eager one until it is compiled.
    able = [way for way in able if not way.is_compiled or way.eager() in able]
    if not able:
        log.warning("batching_unavailable", reason="its logits in a batch are not those alone")
        return RowBatch(model)
    choose = _measured(model, layouts, able, max_sequences)
    return RingBatch(model, make_prompt_cache(model), layouts, choose)


def ways() -> tuple[Way, ...]:
    """Return every way of stepping there is on this device."""
    return _CPU_WAYS if mx.default_device() == mx.cpu else _GPU_WAYS


def _only(model: nn.Module, layouts: list[Layout], way: Way) -> RingBatch:
    """Return a batch that is stepped this way from the first step on."""
    return RingBatch(model, make_prompt_cache(model), layouts, lambda _: way, patience=0)


def _logits_alone(model: nn.Module, prompt: tuple[int, ...]) -> mx.array:
    """Return the logits after each of the trial's tokens, (tokens, vocab), from one plain call."""
    tokens = mx.array([[*prompt, *_TRIAL_TOKENS]])
    logits: mx.array = model(tokens, cache=make_prompt_cache(model))[0, len(prompt) :]
    mx.eval(logits)
    return logits


def _agrees(batch: RingBatch, trial: Trial) -> bool:
    """Say whether this batch gives each row the logits it has alone."""
    try:
        return all(_passes(batch, trial, columns) for columns in (_SMALL_RING, trial.large_ring))
    except FOREIGN_ERRORS as error:
        log.info("way_refused", way=batch.way._asdict(), error=f"{type(error).__name__}: {error}")
        return False
    finally:
        batch.clear()


def _passes(batch: RingBatch, trial: Trial, columns: int) -> bool:
    expected = trial.expected
    batch.clear()
    batch.resize([None] * len(expected), columns)
    for row, (prompt, caches) in enumerate(zip(_TRIAL_PROMPTS, trial.caches, strict=True)):
        batch.join(row, caches, 0, len(prompt))
    first = 0
    for step, token in enumerate(_TRIAL_TOKENS):
        if step == _STEPS_OF_FIRST:
            batch.leave(0)
            first = 1
        logits = batch.forward(mx.full((len(expected),), token, mx.int32))
        alone = mx.stack([each[step] for each in expected[first:]])
        if not _is_close(logits[first:], alone):
            return False
    return True


def _read(model: nn.Module, prompt: tuple[int, ...]) -> list[Any]:
    caches: list[Any] = make_prompt_cache(model)
    if prompt:
        mx.eval(model(mx.array([prompt]), cache=caches))
    return caches


def _is_close(got: mx.array, expected: mx.array) -> bool:
    tolerance = _TOLERANCE.get(expected.dtype, _COARSE_TOLERANCE)
    got, expected = got.astype(mx.float32), expected.astype(mx.float32)
    apart = mx.linalg.norm(got - expected, axis=-1)
    return bool(mx.all(apart <= tolerance * mx.linalg.norm(expected, axis=-1)).item())


def _measured(
    model: nn.Module, layouts: list[Layout], ways: list[Way], max_sequences: int
) -> Callable[[int], Way]:
    if len(ways) == 1:
        return lambda _: ways[0]
    sizes = [size for size in _SIZES if size < 2 * max_sequences]
    fastest = {
        size: min(ways, key=lambda way: _seconds(model, layouts, way, size)) for size in sizes
    }

    def choose(rows: int) -> Way:
        return fastest[next((size for size in sizes if size >= rows), sizes[-1])]

    return choose


def _seconds(model: nn.Module, layouts: list[Layout], way: Way, rows: int) -> float:
    """Return the seconds a step of `rows` rows takes, greedy sampling included; infinity where
    it fails, for want of memory."""
    batch = _only(model, layouts, way)
    begin = 0.0
    try:
        batch.resize([None] * rows, _COLUMNS)
        tokens = mx.zeros((rows,), mx.int32)
        for step in range(-2, _TIMED_STEPS):
            before, tokens = tokens, mx.argmax(batch.forward(tokens), axis=-1).astype(mx.int32)
            mx.async_eval(tokens, batch.arrays())  # type: ignore[no-untyped-call]
            mx.eval(before)
            if step < 0:
                mx.eval(tokens)
                begin = time.perf_counter()
        mx.eval(tokens)
    except RuntimeError:
        return math.inf
    finally:
        batch.clear()
    return time.perf_counter() - begin
