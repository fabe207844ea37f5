"""Measure edits of the manifest under load: save to converged, plans, stalls, lost requests.

usage: python ops/bench/reload.py [--edits 200] [--streams 16] [--models 50]

Starts an appliance of scripted models on loopback. While streams run one after the other it saves
policy-only edits and waits for each to converge, and asks /health/live as often as it can: the
longest answer bounds how long the event loop was blocked. Prints milliseconds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

from gateway import free_port

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 60.0
_PIECES = 50
SCRIPT = f'- {{match: go, pieces: ["tick "], piece_delay: 10ms, repeat: {_PIECES}}}\n'


def manifest(edit: int, models: int) -> str:
    chat = f'{{name: chat, aliases: [edit-{edit}], source: "scripted:s.yaml", '
    chat += "engine: {memory: 1GiB}, residency: {preload: true}}"
    rest = 'source: "scripted:s.yaml", engine: {memory: 1MiB}}'
    small = [f"{{name: m{number}, {rest}" for number in range(models)]
    return "version: 1\nmodels:\n" + "".join(f"  - {each}\n" for each in [chat, *small])


class Appliance:
    """One `vllm-mlx serve` in a folder of its own."""

    def __init__(self, folder: Path, more: int) -> None:
        self._more = more
        self.file = folder / "vllm-mlx.yaml"
        (folder / "s.yaml").write_text(SCRIPT)
        self.file.write_text(self.manifest(0))
        self.url = f"http://127.0.0.1:{free_port()}"
        command = [sys.executable, "-m", "appliance", "serve", "-c", str(self.file)]
        command += ["--port", self.url.rpartition(":")[2], "--state-dir", str(folder / "state")]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)

    def manifest(self, edit: int) -> str:
        return manifest(edit, self._more)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}/health/ready", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise TimeoutError("the appliance did not start")

    def statuses(self) -> Iterator[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/admin/v1/status?watch=true", timeout=60) as lines:
            for line in lines:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    def save(self, text: str) -> float:
        beside = self.file.with_name(".new")
        beside.write_text(text)
        beside.replace(self.file)
        return time.perf_counter()

    def plan(self, text: str) -> float:
        begin = time.perf_counter()
        request = urllib.request.Request(f"{self.url}/admin/v1/plan", text.encode(), method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
        return time.perf_counter() - begin

    def stream(self) -> float:
        """Stream one answer; return its longest silence. Raises if a token is missing."""
        body = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "go"}]}
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        times, text = [time.perf_counter()], 0
        with urllib.request.urlopen(request, timeout=30) as lines:
            for line in lines:
                text += line.count(b"tick ")
                times.append(time.perf_counter())
        if text != _PIECES:
            raise RuntimeError(f"{text} pieces instead of {_PIECES}")
        return max(after - before for before, after in pairwise(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--models", type=int, default=50, help="models in the manifest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vm-", dir="/tmp") as name:
        appliance = Appliance(Path(name), options.models - 1)
        try:
            appliance.wait_ready()
            measure(appliance, options.edits, options.streams)
        finally:
            appliance.process.terminate()
            appliance.process.wait(30)


def measure(appliance: Appliance, edits: int, streams: int) -> None:
    plans = [appliance.plan(appliance.manifest(-1)) for _ in range(20)]
    show("plan, over HTTP", plans)
    show("save to converged, idle", follow(appliance, range(1, 21)))
    over = threading.Event()
    with ThreadPoolExecutor(streams + 1) as pool:
        running = [pool.submit(repeat, appliance.stream, over) for _ in range(streams)]
        live = pool.submit(repeat, lambda: ask(f"{appliance.url}/health/live"), over)
        try:
            taken = follow(appliance, range(21, 21 + edits))
        finally:
            over.set()
        silences = [each for future in running for each in future.result()]
    show(f"save to converged, {streams} streams", taken)
    show("longest silence of each stream", silences)
    show("GET /health/live meanwhile", live.result())
    print(f"{len(silences)} streams, none failed, no piece lost")


def follow(appliance: Appliance, edits: range) -> list[float]:
    """Save edits one after the other; return the seconds each took to converge."""
    statuses = appliance.statuses()
    number = next(statuses)["number"]
    taken = []
    for edit in edits:
        begin = appliance.save(appliance.manifest(edit))
        number += 1
        while True:
            now = next(statuses)
            if now["number"] == number and now["state"] == "converged":
                break
        taken.append(time.perf_counter() - begin)
    return taken


def repeat(call: Callable[[], float], over: threading.Event) -> list[float]:
    found = []
    while not over.is_set():
        found.append(call())
    return found


def ask(url: str) -> float:
    begin = time.perf_counter()
    with urllib.request.urlopen(url, timeout=10) as answer:
        answer.read()
    return time.perf_counter() - begin


def show(what: str, seconds: list[float]) -> None:
    ordered = sorted(1000 * each for each in seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    print(
        f"{what}: median {statistics.median(ordered):.1f}, p99 {p99:.1f}, worst {ordered[-1]:.1f}"
    )


if __name__ == "__main__":
    main()
