"""Measure the engine beside its peers: throughput, decode, joins, mixed load and memory.

usage: python ops/bench/engine.py http|decode|join|mixed|soak [--model NAME] [options]

Everything that is compared runs in turns in one run on this machine; figures are medians. Models:
`smollm2` (the built-in one, dense float32), and random weights of Qwen3's shapes: `tiny` (float32),
`qwen3-0.6b` and `qwen3-8b` (bfloat16). Their folders are made once below --root.
The peers are mlx_lm.server and vllm-mlx; a peer without a command is left out, and said to be.
RESULTS.md says what must hold and what was measured.
"""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from measure import folder as folders
from measure.decode import run_decode
from measure.generator import serve_raw
from measure.join import Crowd, run_join
from measure.mixed import Mix, run_mixed
from measure.server import Peers
from measure.soak import Soak, run_soak
from measure.table import Results
from measure.throughput import Workload, run_throughput

from appliance.engine.blas import preload_blas

Options = argparse.Namespace


def main() -> None:
    if sys.argv[1:2] == ["raw"]:
        serve_raw(Path(sys.argv[2]))
        return
    options = parse()
    preload_blas()
    # As at an error: servers that were started must not outlive this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    made = folders.model_folder(options.model, options.root, options.tokenizer)
    if options.part == "folder":
        print(made)
        return
    facts = {"model": options.model, "device": device_name()}
    results = Results(options.part, facts, options.json)
    PARTS[options.part](made, options, results)
    results.show()


def device_name() -> str:
    """Return what MLX would compute on; asked in a child, since servers need no MLX here."""
    import subprocess

    asking = "import mlx.core as mx; print(mx.default_device(), mx.__version__)"
    command = [sys.executable, "-c", asking]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def parse() -> Options:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    for name in ("folder", *PARTS):
        part = parts.add_parser(name)
        part.add_argument("--model", choices=folders.NAMES, default="smollm2")
        part.add_argument("--root", type=Path, default=Path.home() / ".cache/vllm-mlx-bench")
        tokenizer = os.environ.get("BENCH_TOKENIZER")
        part.add_argument("--tokenizer", type=Path, default=tokenizer and Path(tokenizer))
        part.add_argument("--json", type=Path, help="file that gets each row as a JSON line")
        part.add_argument("--rounds", type=int, default=3)
        if name in MORE:
            MORE[name](part)
    return parser.parse_args()


def add_http(part: argparse.ArgumentParser) -> None:
    part.add_argument("--streams", type=int, nargs="+", default=[8, 32, 128])
    part.add_argument("--tokens", type=int, default=32, help="tokens an answer")
    part.add_argument("--words", type=int, default=32, help="about 80 tokens of prompt in all")
    add_servers(part)


def add_servers(part: argparse.ArgumentParser) -> None:
    names = ["ours", "mlx_lm", "vllm_mlx"]
    part.add_argument("--servers", nargs="+", choices=names, default=names)
    part.add_argument("--mlx-lm", default=f"{sys.executable} -m mlx_lm", help="its command")
    command = os.environ.get("BENCH_VLLM_MLX", "")
    part.add_argument("--vllm-mlx", default=command, help="its command")
    part.add_argument("--work", type=Path, help="keeps the servers' logs; default: nowhere")


def add_decode(part: argparse.ArgumentParser) -> None:
    part.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    part.add_argument("--context", type=int, default=1024)
    part.add_argument("--steps", type=int, default=20, help="steps a round")


def add_join(part: argparse.ArgumentParser) -> None:
    part.add_argument("--rows", type=int, default=32)
    part.add_argument("--context", type=int, default=4096)
    part.add_argument("--prompt", type=int, default=64, help="tokens of the one that joins")
    part.add_argument(
        "--share", type=float, help="memory that ours may use beside weights, as multiple of the KV"
    )


def add_mixed(part: argparse.ArgumentParser) -> None:
    part.add_argument("--streams", type=int, default=8)
    part.add_argument("--words", type=int, default=4000, help="of the long prompt")
    part.add_argument("--gaps", type=int, default=30, help="gaps a stream before the prompt")
    add_servers(part)
    part.set_defaults(servers=["ours"])


def add_soak(part: argparse.ArgumentParser) -> None:
    part.add_argument("--requests", type=int, default=500)
    part.add_argument("--warm-up", type=int, default=100)
    part.add_argument("--prompt", type=int, default=1024, help="longest prompt")
    part.add_argument("--answer", type=int, default=64, help="longest answer")


def run_http(folder: Path, options: Options, results: Results) -> None:
    peers = Peers(options.mlx_lm, options.vllm_mlx)
    for streams in options.streams:
        load = Workload(streams, options.tokens, options.words, options.rounds)
        with working_folder(options) as work:
            run_throughput(folder, load, options.servers, peers, work, results)


def run_decode_part(folder: Path, options: Options, results: Results) -> None:
    shape = (options.rounds, options.steps)
    run_decode(folder, options.batches, options.context, shape, results)


def run_join_part(folder: Path, options: Options, results: Results) -> None:
    crowd = Crowd(options.rows, options.context, options.prompt, options.rounds, options.share)
    run_join(folder, crowd, results)


def run_mixed_part(folder: Path, options: Options, results: Results) -> None:
    peers = Peers(options.mlx_lm, options.vllm_mlx)
    mix = Mix(options.streams, options.words, options.gaps, options.rounds)
    with working_folder(options) as work:
        run_mixed(folder, mix, options.servers, peers, work, results)


def run_soak_part(folder: Path, options: Options, results: Results) -> None:
    soak = Soak(options.requests, options.warm_up, options.prompt, options.answer)
    run_soak(folder, soak, results)


@contextlib.contextmanager
def working_folder(options: Options) -> Iterator[Path]:
    """Yield a folder for manifests and logs: the one that was asked for, or one that goes away."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(options.work or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()


PARTS: dict[str, Callable[[Path, Options, Results], None]] = {
    "http": run_http,
    "decode": run_decode_part,
    "join": run_join_part,
    "mixed": run_mixed_part,
    "soak": run_soak_part,
}
MORE: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "http": add_http,
    "decode": add_decode,
    "join": add_join,
    "mixed": add_mixed,
    "soak": add_soak,
}

if __name__ == "__main__":
    main()
