"""Whether memory stays as it is over many short and long requests, some of them cancelled."""

import asyncio
import json
import random
from dataclasses import dataclass
from os import getpid
from pathlib import Path

from gateway import resident_bytes

from appliance.engine.client import WorkerEngine
from appliance.engine.interface import EngineEvents, EngineStream
from appliance.engine.wire import EngineSettings, Load
from measure.batch import make_submit, random_ids
from measure.table import Results, ratio

_AT_ONCE = 8
_IDLE_SECONDS = 1.0


@dataclass(frozen=True)
class Soak:
    """How many requests, how many before them to warm up, the longest prompt and answer."""

    requests: int
    warm_up: int
    prompt: int
    answer: int


def run_soak(folder: Path, soak: Soak, results: Results) -> None:
    """Send the requests to an engine in this process and note its memory at four points."""
    asyncio.run(_run(folder, soak, results))


async def _run(folder: Path, soak: Soak, results: Results) -> None:
    import mlx.core as mx

    from appliance.engine.inprocess import InProcessWorker

    events = EngineEvents(
        on_step=lambda step: None, on_progress=lambda progress: None, on_lost=lambda error: None
    )
    engine = WorkerEngine("m", events, step_timeout=600.0)
    settings = EngineSettings(max_sequences=_AT_ONCE)
    await engine.start(Load("m", str(folder), settings), InProcessWorker().connection)
    vocab_size = int(json.loads((folder / "config.json").read_text())["vocab_size"])
    source = random.Random(3)

    async def send(first: int, many: int) -> int:
        limit = asyncio.Semaphore(_AT_ONCE)
        orders = [_order(source, first + number, soak) for number in range(many)]
        counts = await asyncio.gather(
            *(_send(engine, limit, order, vocab_size) for order in orders)
        )
        await asyncio.sleep(_IDLE_SECONDS)  # the last rows leave with the next step
        mx.clear_cache()
        return sum(counts)

    begin = asyncio.get_running_loop().time()
    try:
        await send(-soak.warm_up, soak.warm_up)
        start = mx.get_active_memory()
        cancelled = await send(0, soak.requests // 2)
        half = resident_bytes(getpid())
        cancelled += await send(soak.requests // 2, soak.requests - soak.requests // 2)
        end, grown = mx.get_active_memory(), resident_bytes(getpid())
    finally:
        await engine.close()
    results.add(
        requests=soak.requests,
        cancelled=cancelled,
        seconds=round(asyncio.get_running_loop().time() - begin, 1),
        active_start_mb=round(start / 1e6, 2),
        active_end_mb=round(end / 1e6, 2),
        active_ratio=ratio(end, start),
        rss_half_mb=round(half / 1e6, 1),
        rss_end_mb=round(grown / 1e6, 1),
        rss_ratio=ratio(grown, half),
    )


@dataclass(frozen=True)
class _Order:
    """One request: its number, lengths, and after how many tokens it is cancelled, if it is."""

    number: int
    prompt: int
    answer: int
    cancel_after: int | None


def _order(source: random.Random, number: int, soak: Soak) -> _Order:
    is_long = source.random() < 0.25
    share = source.uniform(0.25, 1.0) if is_long else source.uniform(0.01, 0.1)
    answer = source.randrange(1, soak.answer)
    cancel_after = source.randrange(answer) if source.random() < 0.2 else None
    return _Order(number, max(2, int(share * soak.prompt)), answer, cancel_after)


async def _send(
    engine: WorkerEngine, limit: asyncio.Semaphore, order: _Order, vocab_size: int
) -> int:
    """Read one answer to its end or its cancel; returns 1 if it was cancelled."""
    async with limit:
        ids = random_ids(order.number, order.prompt, vocab_size)
        submit = make_submit(f"r{order.number}", ids, order.answer)
        stream: EngineStream = engine.submit(submit)
        tokens = 0
        while order.cancel_after is None or tokens <= order.cancel_after:
            rows = await stream.take()
            tokens += sum(row.tokens for row in rows)
            if any(row.end is not None for row in rows):
                return 0
            if order.cancel_after == 0:
                break
        engine.cancel(submit.id)
        return 1
