"""Measure what the gateway adds: pieces a second against a bare ASGI app and FastAPI, idle streams.

usage: python ops/bench/gateway.py [--streams 64] [--pieces 400] [--rounds 7] [--idle 2000]

Every variant sends the same bytes, one event a piece, in one interleaved run on this machine;
figures are medians. FastAPI is left out, and said to be, where it is not installed.
"""

import argparse
import importlib.util
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).parent))
from load import read_streams

HERE = Path(__file__).parent

MANIFEST = """\
version: 1
defaults: {engine: {max_sequences: 4096}}
server: {limits: {queue_per_model: 4096}}
models:
  - {name: load, source: "scripted:load.yaml", residency: {preload: true}}
"""


def script(pieces: int) -> str:
    return f"""\
- match: idle
  pieces: ["a"]
  first_delay: 1h
- match: load
  pieces: ["token "]
  repeat: {pieces}
"""


def chat_body(text: str) -> bytes:
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": "load", "messages": messages, "stream": True}).encode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(url: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urlopen(Request(url), timeout=1).close()
        except OSError as error:
            if getattr(error, "code", 0) in (404, 405):
                return
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


class Variant:
    """One server process."""

    def __init__(self, name: str, command: list[str], port: int, probe: str) -> None:
        self.name = name
        self.url = f"http://127.0.0.1:{port}/v1/chat/completions"
        self.rates: list[float] = []
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        if probe:
            wait_until(f"http://127.0.0.1:{port}{probe}")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def serve_command(folder: Path, port: int, pieces: int) -> list[str]:
    (folder / "vllm-mlx.yaml").write_text(MANIFEST)
    (folder / "load.yaml").write_text(script(pieces))
    manifest, state = str(folder / "vllm-mlx.yaml"), str(folder / "state")
    command = [sys.executable, "-m", "appliance", "serve", "-c", manifest]
    return [*command, "--port", str(port), "--state-dir", state, "--log-level", "warning"]


def start_variants(folder: Path, pieces: int) -> list[Variant]:
    port = free_port()
    variants = [Variant("appliance", serve_command(folder, port, pieces), port, "/health/ready")]
    for name in ("bare", "fastapi"):
        if name == "fastapi" and importlib.util.find_spec("sse_starlette") is None:
            sys.stdout.write("fastapi: sse-starlette is not installed, left out\n")
            continue
        port = free_port()
        command = [sys.executable, str(HERE / "peers.py"), name, str(port), str(pieces)]
        variants.append(Variant(name, command, port, "/none" if name == "fastapi" else ""))
    return variants


def resident_bytes(pid: int) -> int:
    out = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    return int(out.stdout) * 1024


def measure_idle(variant: Variant, num_streams: int) -> None:
    """Open streams that get nothing but heartbeats and print what each costs the gateway."""
    before = resident_bytes(variant.process.pid)
    body = chat_body("idle")
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    host, port = variant.url.split("/")[2].split(":")
    connections = []
    for _ in range(num_streams):
        connection = socket.create_connection((host, int(port)))
        connection.sendall(head.encode() + body)
        connections.append(connection)
    for connection in connections:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200"), "an idle stream was refused"
    time.sleep(6)  # long enough for every stream to have sent a heartbeat
    grown = resident_bytes(variant.process.pid) - before
    sys.stdout.write(
        f"{num_streams} idle streams: {grown / 1e6:.1f} MB, "
        f"{grown / num_streams / 1e3:.1f} kB each; gateway {before / 1e6:.0f} MB before\n"
    )
    for connection in connections:
        connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--pieces", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--idle", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        variants = start_variants(Path(folder), options.pieces)
        time.sleep(1)
        try:
            run_rounds(variants, options.streams, options.rounds, options.pieces)
            if options.idle:
                measure_idle(variants[0], options.idle)
        finally:
            for variant in variants:
                variant.stop()


def run_rounds(variants: list[Variant], streams: int, rounds: int, pieces: int) -> None:
    body = chat_body("load")
    for number in range(rounds + 1):
        for variant in variants:
            load = read_streams(variant.url, body, streams)
            assert load.events >= streams * pieces, f"{variant.name} sent {load.events} events"
            if number:  # the first round warms up
                variant.rates.append(load.per_second)
    medians = {variant.name: statistics.median(variant.rates) for variant in variants}
    for name, rate in medians.items():
        sys.stdout.write(f"{name:10} {rate:10.0f} pieces/s\n")
    for name, rate in medians.items():
        if name != "appliance":
            ratio = medians["appliance"] / rate
            sys.stdout.write(f"appliance / {name}: {ratio:.2f}  ({os.cpu_count()} cores)\n")


if __name__ == "__main__":
    main()
