"""What a request that joins a running batch costs those who run, and what memory it takes."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.batch import Filling, load_plain, make_submit, random_ids, step_seconds
from measure.generator import Generator
from measure.table import Results, median, milliseconds

_NORMAL_STEPS = 24
_SETTLE_STEPS = 20
# So many steps from the join on are summed: enough for what a new shape has compiled late.
_ROUND_STEPS = 24
_SHOWN_STEPS = 8
_PREFILL_TRIES = 5


@dataclass(frozen=True)
class Crowd:
    """The batch that runs, the length of the prompt that joins, and how often it does.

    `share` is the memory that ours may use beside the weights, as a multiple of the rows' KV; None
    = all there is.
    """

    rows: int
    context: int
    prompt: int
    rounds: int
    share: float | None = None


@dataclass
class Runner:
    """One contender with its batch filled: how it steps, lets one join and takes it out again."""

    name: str
    step: Callable[[], object]
    join: Callable[[int], None]
    leave: Callable[[], None]
    prefill_seconds: float
    weight_bytes: int


def run_join(folder: Path, crowd: Crowd, results: Results) -> None:
    """Measure mlx-lm's batch generator, then our engine's body, each with the machine's memory."""
    import mlx.core as mx

    kv_bytes = _measure_peer(folder, crowd, results)
    gc.collect()
    mx.clear_cache()
    _measure_ours(folder, crowd, kv_bytes, results)


def _measure_peer(folder: Path, crowd: Crowd, results: Results) -> int:
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache

    model, vocab_size = load_plain(folder)
    weight_bytes = mx.get_active_memory()
    filling = Filling(model, vocab_size, crowd.context)
    filling.read(crowd.rows)
    kv_bytes = crowd.rows * filling.row_bytes()
    generator = Generator(model, crowd.rows + 1)
    generator.insert(filling.prompts(crowd.rows), filling.prompt_caches(crowd.rows))
    filling.caches.clear()
    generator.settle(crowd.rows)
    joined: list[int] = []

    def join(number: int) -> None:
        joined.extend(generator.insert([random_ids(number, crowd.prompt, vocab_size)]))

    def read() -> None:
        caches = make_prompt_cache(model)
        model(mx.array([random_ids(0, crowd.prompt - 1, vocab_size)]), cache=caches)
        mx.eval([cache.state for cache in caches])

    alone = median(step_seconds(read, _PREFILL_TRIES))
    runner = Runner(
        "mlx_lm",
        generator.step,
        join,
        lambda: generator.remove([joined.pop()]),
        alone,
        weight_bytes,
    )
    _measure(runner, crowd, kv_bytes, results)
    generator.close()
    return kv_bytes


def _measure_ours(folder: Path, crowd: Crowd, kv_bytes: int, results: Results) -> None:
    from appliance.engine.loader import load_body
    from appliance.engine.wire import EngineSettings, Load, MemoryLimits
    from appliance.scheduler.sequence import Sequence

    settings = EngineSettings(max_sequences=crowd.rows + 8)
    body = load_body(Load("m", str(folder), settings), lambda phase, done, total: None)
    if crowd.share is not None:
        body.set_limits(MemoryLimits(int(body.footprint_bytes + crowd.share * kv_bytes)))
    vocab_size = _vocab_size(folder)

    def insert(name: str, ids: list[int]) -> None:
        submit = make_submit(name, ids, body.context_tokens - len(ids))
        body.insert(submit, Sequence(name, len(ids)))

    alone = []
    for number in range(_PREFILL_TRIES):
        insert("alone", random_ids(number, crowd.prompt, vocab_size))
        alone.append(body.step().seconds["prefill"])
        body.remove("alone")
    for number in range(crowd.rows):
        insert(str(number), random_ids(number, crowd.context, vocab_size))
    num_made = 0
    while num_made < crowd.rows:
        outcome = body.step()
        assert not outcome.preempted, "there is too little memory for the batch"
        num_made = len(outcome.rows)
    runner = Runner(
        "ours" if crowd.share is None else f"ours with {crowd.share} of KV",
        body.step,
        lambda number: insert("new", random_ids(-1 - number, crowd.prompt, vocab_size)),
        lambda: body.remove("new"),
        median(alone),
        body.footprint_bytes,
    )
    _measure(runner, crowd, kv_bytes, results)
    body.close()


def _measure(runner: Runner, crowd: Crowd, kv_bytes: int, results: Results) -> None:
    """Let one prompt join again and again; the first time the batch may have to grow."""
    import mlx.core as mx

    step_seconds(runner.step, _SETTLE_STEPS)
    extras: list[float] = []
    usual_peaks: list[float] = []
    peaks: list[float] = []
    shown: list[float] = []
    before: list[float] = []
    after: list[float] = []
    for number in range(crowd.rounds):
        mx.reset_peak_memory()
        before.append(median(step_seconds(runner.step, _NORMAL_STEPS)))
        usual_peaks.append((mx.get_peak_memory() - runner.weight_bytes) / kv_bytes)
        mx.reset_peak_memory()
        begin = time.perf_counter()
        runner.join(number)
        inserting = time.perf_counter() - begin
        times = step_seconds(runner.step, _ROUND_STEPS)
        peaks.append((mx.get_peak_memory() - runner.weight_bytes) / kv_bytes)
        shown = shown or [milliseconds(each) for each in times[:_SHOWN_STEPS]]
        # A batch with one row more is a little slower; that is not what joining costs.
        settled = step_seconds(runner.step, _ROUND_STEPS)
        after.append(median(settled))
        total = inserting + sum(times) - runner.prefill_seconds
        extras.append((total - sum(settled)) / before[-1])
        runner.leave()
        step_seconds(runner.step, _SETTLE_STEPS)
    results.add(
        who=runner.name,
        rows=crowd.rows,
        context=crowd.context,
        step_ms=milliseconds(median(before)),
        step_after_ms=milliseconds(median(after)),
        prefill_ms=milliseconds(runner.prefill_seconds),
        first_extra_steps=round(extras[0], 2),
        extra_steps=round(median(extras), 2),
        kv_mb=round(kv_bytes / 1e6, 1),
        peak_before_to_kv=round(median(usual_peaks), 3),
        first_peak_to_kv=round(peaks[0], 3),
        peak_to_kv=round(median(peaks), 3),
        first_steps_ms=shown,
    )


def _vocab_size(folder: Path) -> int:
    import json

    size: Any = json.loads((folder / "config.json").read_text())["vocab_size"]
    return int(size)
