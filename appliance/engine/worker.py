"""Run one model in a process of its own: `python -m appliance.engine.worker FD`."""

import contextlib
import faulthandler
import os
import queue
import signal
import socket
import sys
import threading

from appliance.engine.blas import preload_blas
from appliance.engine.body import Body, OpenBody, Report
from appliance.engine.core import Core, Inbox
from appliance.engine.outbox import Outbox
from appliance.engine.reader import Reader
from appliance.engine.wire import Load
from appliance.telemetry.log import configure_logging

_SEND_BUFFER_BYTES = 2**18


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


def main() -> None:
    """Serve the socket whose descriptor is the first argument, then exit without clean-up.

    Nothing may outlive the parent: an engine thread stuck in a step must not hold the exit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    configure_logging("info", "auto")
    Worker(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
