"""Measure one stream: decode rate over HTTP against plain mlx_lm generation of the same model.

usage: python ops/bench/single.py [--tokens 32] [--rounds 5] [--launches 4] [--state-dir DIR]

Both decode the same greedy tokens of the built-in model, in turn, in one run on this machine; the
rate counts the tokens after the first one over the time after the first one. A process keeps the
memory it happened to get, which alone moves its rate by some 5 %, so both start anew in every
launch. Medians of all rounds are printed, and the median of the ratios round by round.
"""

import argparse
import http.client
import json
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))
from gateway import free_port, wait_until

from appliance.engine.blas import preload_blas
from appliance.manifest.setting import default_state_dir

QUESTION = "Write a long story about a lighthouse keeper and the sea."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--launches", type=int, default=4)
    parser.add_argument("--state-dir", type=Path, default=default_state_dir())
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        launch(options.state_dir, options.tokens, options.rounds)
    else:
        summarise([run_launch() for _ in range(options.launches)])


def run_launch() -> list[dict[str, float]]:
    """Run one launch in a process of its own and return its rounds."""
    command = [sys.executable, __file__, *sys.argv[1:], "--launch"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith('{"http"')]


def launch(state_dir: Path, tokens: int, rounds: int) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "appliance", "serve", "--port", str(port)]
    process = subprocess.Popen([*command, "--state-dir", str(state_dir), "--log-level", "warning"])
    try:
        wait_until(f"{url}/health/ready", 600)
        plain = PlainModel(next((state_dir / "models").glob("*/model.safetensors")).parent)
        for number in range(rounds + 1):
            got = {"http": 0.0, "plain": 0.0}
            # Every other round the other way round: a machine that slows down favours neither.
            for name in ("http", "plain") if number % 2 else ("plain", "http"):
                got[name] = stream_rate(url, tokens) if name == "http" else plain.rate(tokens)
            if number:  # the first round warms up
                sys.stdout.write(json.dumps(got) + "\n")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def summarise(launches: list[list[dict[str, float]]]) -> None:
    for rounds in launches:
        ratio = statistics.median(each["http"] / each["plain"] for each in rounds)
        sys.stdout.write(f"launch: http / plain {ratio:.3f}\n")
    every = [each for rounds in launches for each in rounds]
    medians = {name: statistics.median(each[name] for each in every) for name in ("http", "plain")}
    for name, rate in medians.items():
        sys.stdout.write(f"{name:6} {rate:8.2f} tokens/s\n")
    paired = statistics.median(each["http"] / each["plain"] for each in every)
    ratio = medians["http"] / medians["plain"]
    sys.stdout.write(f"http / plain: {ratio:.3f} by medians, {paired:.3f} by pairs\n")


def stream_rate(url: str, tokens: int) -> float:
    """Stream one answer and return its decode rate, by the token count of its usage."""
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=600)
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    response = connection.getresponse()
    assert response.status == 200, response.read()
    first = last = 0.0
    usage = 0
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if event["choices"] and event["choices"][0]["delta"].get("content"):
            last = time.perf_counter()
            first = first or last
        usage = (event.get("usage") or {}).get("completion_tokens", usage)
    connection.close()
    assert usage == tokens
    return (tokens - 1) / (last - first)


class PlainModel:
    """The same folder, decoded by mlx_lm's own loop in this process."""

    def __init__(self, folder: Path) -> None:
        preload_blas()
        from mlx_lm.utils import load_model

        from appliance.chat.request import Message
        from appliance.chat.template import ChatTemplate
        from appliance.chat.tokenizer import Tokenizer

        self._model, _ = load_model(folder)
        tokenizer = Tokenizer.load(folder)
        template = ChatTemplate.load(folder, tokenizer.special_tokens)
        text = template.render((Message("user", QUESTION),), (), {})
        self._ids = tokenizer.encode(text)

    def rate(self, tokens: int) -> float:
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        times = []
        for _ in generate_step(mx.array(self._ids), self._model, max_tokens=tokens):
            times.append(time.perf_counter())
        return (len(times) - 1) / (times[-1] - times[0])


if __name__ == "__main__":
    main()
