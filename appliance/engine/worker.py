"""Run one model in a process of its own: `… -m appliance.engine.worker FD [LEVEL [FORMAT]]`."""

import contextlib
import faulthandler
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, cast

import structlog

from appliance.engine.blas import preload_blas
from appliance.engine.body import Body, OpenBody, Report
from appliance.engine.core import Core, Inbox
from appliance.engine.outbox import Outbox
from appliance.engine.reader import Reader
from appliance.engine.wire import Load
from appliance.telemetry.log import LogFormat, LogLevel, configure_logging

_SEND_BUFFER_BYTES = 2**18
_LOGGING = ("info", "auto")
_SWITCH_SECONDS = 0.0005

log = structlog.get_logger()


def open_body(load: Load, report: Report) -> Body:
    """Load what `load` names; raises LoadFailed. MLX is imported here, for models only."""
    if load.engine.kind == "scripted":
        from appliance.engine import scripted  # noqa: PLC0415 - only what this load needs

        return scripted.load_body(load, report)
    preload_blas()
    from appliance.engine import loader  # noqa: PLC0415 - after BLAS, and never for a script

    return loader.load_body(load, report)


class Worker:
    """The two threads round one socket, which the worker owns and closes.

    `serve` is the reader thread; it starts the engine thread, which alone loads, steps and frees.
    """

    def __init__(self, sock: socket.socket, open_body: OpenBody = open_body) -> None:
        self._sock = sock
        self._bell, self._wakeup = socket.socketpair()
        self._bell.setblocking(False)
        inbox: Inbox = queue.SimpleQueue()
        outbox = Outbox(wake=self._ring, on_room=lambda: inbox.put(None))
        core = Core(inbox, outbox, open_body)
        self._reader = Reader(sock, self._wakeup, core, inbox, outbox)
        self._engine = threading.Thread(target=core.run, name="engine", daemon=True)

    def serve(self) -> None:
        """Serve until the parent is gone, or until Close or a failure has been answered.

        Returns at once when the parent is gone, whatever the engine thread is doing; that one
        ends after its step.
        """
        # A default of 8 kB (macOS) would cut every larger step in pieces.
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._engine.start()
        try:
            self._reader.run(os.getpid())
        finally:
            for end in (self._sock, self._wakeup, self._bell):
                end.close()

    def join(self) -> None:
        """Wait until the engine thread has ended; call after `serve`."""
        self._engine.join()

    def _ring(self) -> None:
        # Full means already rung; closed means that nobody listens any more.
        with contextlib.suppress(OSError):
            self._bell.send(b"\0")


def exit_after(serve: Callable[[], None]) -> NoReturn:
    """Call `serve`, then exit without clean-up: with 1 if it raised, which is logged, else 0.

    Nothing may outlive the parent: an engine thread stuck in a step must not hold the exit.
    """
    status = 1
    try:
        serve()
        status = 0
    except Exception:
        log.exception("reader_failed")
    finally:
        os._exit(status)


def main() -> None:
    """Serve the socket whose descriptor is the first argument, logging as the next two say."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    descriptor, level, log_format = (*sys.argv[1:4], *_LOGGING[len(sys.argv) - 2 :])
    configure_logging(cast(LogLevel, level), cast(LogFormat, log_format))
    # The reader thread makes text while the engine thread prepares the next step.
    sys.setswitchinterval(_SWITCH_SECONDS)
    exit_after(Worker(socket.socket(fileno=int(descriptor))).serve)


if __name__ == "__main__":
    main()
