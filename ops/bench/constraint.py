"""Measure what bounds cost: a decode step of bound rows beside one of free rows.

usage: python ops/bench/constraint.py [--model NAME] [--batches 1 8 16] [--rounds N]

One engine takes turns between batches in which every row is bound by a JSON schema, one row is,
none is, and every row may not think but is free; figures are medians, the cost is the median of
each round's ratio. Also what the first request of all waits for, and the compiling of one more
grammar. Models are those of engine.py.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from threading import Event
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from measure import folder as folders
from measure.table import Results, median, milliseconds, ratio

from appliance.chat.grammar import Grammar
from appliance.chat.request import SamplingParams
from appliance.engine.blas import preload_blas
from appliance.engine.wire import EngineSettings, Load, Submit, ThoughtRule, TokenPrompt
from appliance.parsing.format import AnswerFormat
from appliance.scheduler.sequence import Sequence

ITEM = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string", "maxLength": 40},
        "kind": {"enum": ["town", "river", "hill"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 4},
    },
    "required": ["id", "name", "kind", "tags"],
    "additionalProperties": False,
}
OPTIONS = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
SCHEMA = {"type": "array", "items": ITEM, "minItems": 40, "x-guidance": OPTIONS}
THOUGHTLESS = ThoughtRule(AnswerFormat("qwen3"), budget=0)
PROMPT = "Here is a long list of places as JSON, with an id, a name, a kind and tags:\n"


def main() -> None:
    options = parse()
    preload_blas()
    import mlx.core as mx

    from appliance.engine.loader import load_body

    made = folders.model_folder(options.model, options.root, options.tokenizer)
    load = Load(options.model, str(made), EngineSettings(max_sequences=max(options.batches)))
    body = load_body(load, lambda phase, done, total: None)
    facts = {"model": options.model, "device": str(mx.default_device())}
    results = Results("constraint", facts, options.json)
    first, second = (compile_seconds(body, number) for number in range(2))
    results.add(first_ms=milliseconds(first), compile_ms=milliseconds(second))
    for rows in options.batches:
        compare(body, rows, options, results)
    results.show()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=folders.NAMES, default="smollm2")
    parser.add_argument("--root", type=Path, default=Path.home() / ".cache/vllm-mlx-bench")
    tokenizer = os.environ.get("BENCH_TOKENIZER")
    parser.add_argument("--tokenizer", type=Path, default=tokenizer and Path(tokenizer))
    parser.add_argument("--json", type=Path, help="file that gets each row as a JSON line")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    # More than the engine waits before it compiles the step of a new shape.
    parser.add_argument("--warm-up", type=int, default=24, help="steps that do not count")
    return parser.parse_args()


def compile_seconds(body: Any, number: int) -> float:
    """Return how long a request waits for its grammar."""
    done = Event()
    begin = time.perf_counter()
    if not body.prepare(submit(body, f"compile-{number}", number), done.set):
        done.wait()
    return time.perf_counter() - begin


def submit(body: Any, name: str, grammar: int | None, thought: ThoughtRule | None = None) -> Submit:
    """Return a request that makes tokens until it is removed."""
    bound = None
    if grammar is not None:
        schema = SCHEMA | {"maxItems": 1000 + grammar}
        bound = Grammar(f"start: %json {json.dumps(schema)}")
    prompt = TokenPrompt(body.tokenizer.encode(PROMPT))
    sampling = SamplingParams(temperature=0.7, seed=hash(name) % 2**32)
    bounds = {"grammar": bound, "thought": thought, "shown": THOUGHTLESS.form.marks()}
    return Submit("", name, prompt, 1500, sampling, ignore_eos=True, **bounds)


def compare(body: Any, rows: int, options: argparse.Namespace, results: Results) -> None:
    """Step batches of each kind in turns."""
    kinds = {"free": 0, "one": 1, "bound": rows, "thoughtless": 0}
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(options.rounds):
        for kind in sorted(kinds, reverse=bool(turn % 2)):
            thought = THOUGHTLESS if kind == "thoughtless" else None
            seconds[kind].append(step_seconds(body, rows, kinds[kind], thought, options))
    costs = {
        kind: median(mine / free for mine, free in zip(seconds[kind], seconds["free"], strict=True))
        for kind in ("one", "bound", "thoughtless")
    }
    results.add(
        batch=rows,
        **{f"{kind}_ms": milliseconds(median(seconds[kind])) for kind in kinds},
        **{f"{kind}_cost": ratio(cost, 1.0) for kind, cost in costs.items()},
    )


def step_seconds(
    body: Any,
    rows: int,
    num_bound: int,
    thought: ThoughtRule | None,
    options: argparse.Namespace,
) -> float:
    """Return the median time of a decode step of so many rows."""
    names = [f"row-{row}" for row in range(rows)]
    for row, name in enumerate(names):
        asked = submit(body, name, 0 if row < num_bound else None, thought)
        body.insert(asked, Sequence(name, body.check(asked)))
    made: set[str] = set()
    while len(made) < rows:
        made.update(row.id for row in body.step().rows)
    times = [tokens_seconds(body, rows) for _ in range(options.warm_up + options.steps)]
    for name in names:
        body.remove(name)
    return median(times[options.warm_up :])


def tokens_seconds(body: Any, rows: int) -> float:
    """Return the time until every row has one more token."""
    begin = time.perf_counter()
    while not (outcome := body.step()).rows:
        pass
    assert len(outcome.rows) == rows, outcome
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
