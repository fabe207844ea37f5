"""Be a child process with one piece of work: its progress, its failure and its leash."""

import errno
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from threading import Thread

from appliance.errors import SourceError

_REPORT_SECONDS = 0.2


def run_errand(work: Callable[[], None]) -> int:
    """Do `work` and return the exit code; a failure is one JSON line `{"error", "retryable"}`.

    Where standard input is a pipe or socket it is the leash: at its end of file the process ends,
    with all its children if it leads a process group.
    """
    mode = os.fstat(0).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        Thread(target=_end_with_parent, name="leash", daemon=True).start()
    try:
        work()
    except SourceError as error:
        return _fail(error.reason, retryable=error.retryable)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return _fail("the disk is full" if is_full else str(error), retryable=is_full)
    return 0


def tell(message: dict[str, object]) -> None:
    """Write one JSON line to the parent."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class ProgressTeller:
    """Tells progress as JSON lines: a few a second, every change of phase and every end."""

    def __init__(self) -> None:
        self._phase = ""
        self._next = 0.0

    def report(self, phase: str, done: int, total: int) -> None:
        """Tell `{"phase", "done", "total"}`, unless the last line is too recent."""
        now = time.monotonic()
        if phase == self._phase and now < self._next and done != total:
            return
        self._phase, self._next = phase, now + _REPORT_SECONDS
        tell({"phase": phase, "done": done, "total": total})


def _fail(reason: str, *, retryable: bool) -> int:
    tell({"error": reason, "retryable": retryable})
    return 1


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
