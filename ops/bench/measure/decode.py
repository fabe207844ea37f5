"""Milliseconds a decode step of our batch takes, in every way of stepping, beside mlx-lm's."""

from pathlib import Path
from typing import Any

from measure.batch import Filling, OurRows, load_plain, step_seconds
from measure.generator import Generator
from measure.table import Results, median, milliseconds, ratio

# Longer than the engine waits before it compiles the step of a new shape.
_WARM_UP = 24
_SAME_TOKENS = 10


def run_decode(
    folder: Path, batches: list[int], context: int, shape: tuple[int, int], results: Results
) -> None:
    """Measure each batch size; `shape` is rounds and steps a round."""
    import mlx.core as mx

    model, vocab_size = load_plain(folder)
    filling = Filling(model, vocab_size, context)
    for rows in batches:
        filling.read(rows)
        for name, batch in _batches(model, rows):
            _compare(filling, rows, (name, batch), shape, results)
            mx.clear_cache()


def _batches(model: Any, rows: int) -> list[tuple[str, Any]]:
    """Return the batch that the engine would choose, and one for each way by itself."""
    from mlx_lm.models.cache import make_prompt_cache

    from appliance.engine import choice
    from appliance.engine.ring import read_layouts
    from appliance.engine.ring_batch import RingBatch

    caches = make_prompt_cache(model)
    _read_two(model, caches)
    layouts = read_layouts(caches)
    chosen = choice.choose_batch(model, layouts, rows)
    found = [("chosen", chosen)]
    if layouts is None or not isinstance(chosen, RingBatch):
        return found
    for way in choice.ways():
        caches = make_prompt_cache(model)
        batch = RingBatch(model, caches, layouts, lambda _, way=way: way, patience=0)
        found.append((_way_name(way), batch))
    return found


def _read_two(model: Any, caches: list[Any]) -> None:
    import mlx.core as mx

    mx.eval(model(mx.array([[0, 0]]), cache=caches))


def _way_name(way: Any) -> str:
    marks = {"windowed": way.is_windowed, "twin": way.is_twin}
    words = ["compiled" if way.is_compiled else "eager", *(word for word in marks if marks[word])]
    return " ".join(words)


def _compare(
    filling: Filling,
    rows: int,
    contender: tuple[str, Any],
    shape: tuple[int, int],
    results: Results,
) -> None:
    """Step ours and a fresh batch generator in turns, from the same prompts on."""
    from appliance.scheduler.room import columns_for

    name, batch = contender
    rounds, steps = shape
    columns = columns_for(filling.length + _WARM_UP + rounds * (steps + 1) + 32)
    ours = OurRows(batch, filling, rows, columns)
    peer = Generator(filling.model, rows)
    peer.insert(filling.prompts(rows), filling.prompt_caches(rows))
    peer.settle(rows)
    step_seconds(peer.step, _WARM_UP)
    step_seconds(ours.step, _WARM_UP)
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for turn in range(rounds):
        for who in ("ours", "peer") if turn % 2 else ("peer", "ours"):
            step = ours.step if who == "ours" else peer.step
            step()  # takes in what the other's turn left over
            seconds[who].append(sum(step_seconds(step, steps)) / steps)
    same = [
        mine == theirs
        for row, others in zip(ours.made, peer.made.values(), strict=True)
        for mine, theirs in zip(row[:_SAME_TOKENS], others[:_SAME_TOKENS], strict=True)
    ]
    if name == "chosen" and hasattr(batch, "way"):
        name += ": " + _way_name(batch.way)
    ours.close()
    peer.close()
    ours_ms, peer_ms = (milliseconds(median(seconds[who])) for who in ("ours", "peer"))
    results.add(
        batch=rows,
        context=filling.length,
        way=name,
        ours_ms=ours_ms,
        mlx_lm_ms=peer_ms,
        times_faster=ratio(peer_ms, ours_ms),
        same_tokens=round(sum(same) / len(same), 3),
    )
