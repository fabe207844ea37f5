"""Convert a model file as a child process: `python -m appliance.engine.convert SRC DEST`."""

import argparse
import errno
import json
import os
import stat
import sys
import time
from pathlib import Path
from threading import Thread

from appliance.engine.convert.completion import ensure_tokenizer
from appliance.engine.convert.conversion import convert
from appliance.engine.convert.weight import WeightForm
from appliance.errors import SourceError

_REPORT_SECONDS = 0.2


def main() -> int:
    """Convert the GGUF file SRC into the MLX folder DEST; return the exit code.

    Without DEST, SRC is a model folder, which gets a tokenizer.json if it has none.
    JSON lines on stdout: `{"phase", "done", "total"}` in bytes, and on failure one
    `{"error", "retryable"}` with exit code 1. Where standard input is a pipe it is the leash: at
    its end of file the process ends.
    """
    parser = argparse.ArgumentParser(prog="appliance.engine.convert")
    parser.add_argument("source", type=Path)
    parser.add_argument("dest", type=Path, nargs="?")
    parser.add_argument("--weights", choices=("auto", "float32", "packed"), default="auto")
    args = parser.parse_args()
    if stat.S_ISFIFO(os.fstat(0).st_mode) or stat.S_ISSOCK(os.fstat(0).st_mode):
        Thread(target=_end_with_parent, name="leash", daemon=True).start()
    try:
        if args.dest is None:
            ensure_tokenizer(args.source)
        else:
            form = _weight_form() if args.weights == "auto" else args.weights
            convert(args.source, args.dest, form, ProgressLine().report)
    except SourceError as error:
        return _fail(error.reason, retryable=error.retryable)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return _fail("the disk is full" if is_full else str(error), retryable=is_full)
    return 0


class ProgressLine:
    """Writes progress as JSON lines, a few a second and the last one always."""

    def __init__(self) -> None:
        self._next = 0.0

    def report(self, done: int, total: int) -> None:
        """Write one line, unless the last one is too recent."""
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + _REPORT_SECONDS
            _write({"phase": "convert", "done": done, "total": total})


def _weight_form() -> WeightForm:
    # Imported here: only this question needs MLX.
    import mlx.core as mx  # noqa: PLC0415

    return "float32" if mx.default_device() == mx.Device(mx.cpu) else "packed"


def _fail(reason: str, *, retryable: bool) -> int:
    _write({"error": reason, "retryable": retryable})
    return 1


def _write(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
