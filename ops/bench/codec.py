"""Measure each dialect's cost: gateway CPU for a streamed piece, and to read a long request.

usage: python ops/bench/codec.py [--streams 64] [--pieces 400] [--rounds 5] [--kilobytes 200]

Pieces come from the scripted engine as fast as the gateway takes them, through the parsers of
thoughts and calls; the CPU time of the gateway's process is shared out among them. A long request
is decoded, made the appliance's own and normalised in this process, with turns of calls, results
and late system messages: for a template that shows all of it, and for one that shows little.
Figures are medians.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from gateway import Variant, free_port, serve_command
from load import read_streams
from measure.request import STRICT_TEMPLATE, Reading, readings, short_body
from measure.table import Results, median, milliseconds

from appliance.chat.normalise import normalise
from appliance.chat.traits import Traits

MANIFEST = """\
version: 1
defaults: {engine: {max_sequences: 4096}}
server: {limits: {queue_per_model: 4096}}
models:
  - name: load
    source: "scripted:load.yaml"
    chat: {tool_parser: hermes, reasoning_parser: qwen3}
    residency: {preload: true}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--pieces", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kilobytes", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    dialects = readings(options.kilobytes * 1000)
    results = Results("codec", {"streams": options.streams}, options.json)
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder), options.pieces)
        try:
            paths = [reading.path for reading in dialects]
            pieces = measure_pieces(server, paths, options.streams, options.pieces, options.rounds)
        finally:
            server.stop()
    for reading in dialects:
        results.add(
            path=reading.path,
            piece_us=round(median(pieces[reading.path]) * 1e6, 1),
            request_kb=round(len(reading.body) / 1e3),
            **read_milliseconds(reading),
        )
    results.show()


def start_server(folder: Path, pieces: int) -> Variant:
    port = free_port()
    command = serve_command(folder, port, pieces)
    (folder / "vllm-mlx.yaml").write_text(MANIFEST)
    return Variant("appliance", command, port, "/health/ready")


def measure_pieces(
    server: Variant, paths: list[str], streams: int, pieces: int, rounds: int
) -> dict[str, list[float]]:
    """Return the CPU seconds for a piece in each round of each dialect, in turns."""
    gateway = psutil.Process(server.process.pid)
    root = server.url.removesuffix("/v1/chat/completions")
    found: dict[str, list[float]] = {path: [] for path in paths}
    for number in range(rounds + 1):
        for path in paths:
            before = cpu_seconds(gateway)
            load = read_streams(root + path, short_body(path, "load"), streams)
            spent = cpu_seconds(gateway) - before
            assert load.events >= streams * pieces, f"{path} sent {load.events} events"
            if number:  # the first round warms up
                found[path].append(spent / (streams * pieces))
    return found


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def read_milliseconds(reading: Reading, rounds: int = 20) -> dict[str, float]:
    """Return what each step of reading a request takes, and the whole of it."""
    decoded = reading.decode(reading.body)
    request = reading.convert(decoded)
    steps: dict[str, Callable[[], object]] = {
        "decode_ms": lambda: reading.decode(reading.body),
        "convert_ms": lambda: reading.convert(decoded),
    }
    if request.messages:
        steps["normalise_ms"] = lambda: normalise(request.messages, Traits())
        steps["normalise_strict_ms"] = lambda: normalise(request.messages, STRICT_TEMPLATE)
    times = {
        name: milliseconds(median(seconds(step) for _ in range(rounds)))
        for name, step in steps.items()
    }
    worst = sum(times.values()) - times.get("normalise_ms", 0.0)
    return times | {"read_ms": round(worst, 3)}


def seconds(step: Callable[[], object]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
