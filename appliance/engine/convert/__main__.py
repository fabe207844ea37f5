"""Convert a model file as a child process: `python -m appliance.engine.convert SRC DEST`."""

import argparse
import sys
from functools import partial
from pathlib import Path

from appliance.engine.convert.completion import ensure_tokenizer
from appliance.engine.convert.conversion import convert
from appliance.errand import ProgressTeller, run_errand


def main() -> int:
    """Convert the GGUF file SRC into the MLX folder DEST; return the exit code.

    Without DEST, SRC is a model folder, which gets a tokenizer.json if it has none.
    JSON lines on stdout: `{"phase", "done", "total"}` in bytes, and on failure as `run_errand`
    says.
    """
    parser = argparse.ArgumentParser(prog="appliance.engine.convert")
    parser.add_argument("source", type=Path)
    parser.add_argument("dest", type=Path, nargs="?")
    parser.add_argument("--weights", choices=("float32", "packed"), help="needed with DEST")
    args = parser.parse_args()
    if args.dest is None:
        return run_errand(lambda: ensure_tokenizer(args.source))
    if args.weights is None:
        parser.error("DEST needs --weights")
    report = partial(ProgressTeller().report, "convert")
    return run_errand(lambda: convert(args.source, args.dest, args.weights, report))


if __name__ == "__main__":
    sys.exit(main())
