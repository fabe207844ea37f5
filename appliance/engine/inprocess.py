"""Serve a model inside this process, through the same frames: for tests and benchmarks."""

import socket
import threading

from appliance.engine.body import OpenBody
from appliance.engine.worker import Worker, open_body


class InProcessWorker:
    """A worker's two threads in this process; `connection` is the gateway's end of its socket.

    Give `connection` to the client, which then owns it. Once the client has closed it, `join`
    waits for the threads; a step that never ends keeps them, unlike a process.
    """

    def __init__(self, open_body: OpenBody = open_body) -> None:
        self.connection, theirs = socket.socketpair()
        self._worker = Worker(theirs, open_body)
        self.reader = threading.Thread(target=self._worker.serve, name="reader", daemon=True)
        self.reader.start()

    def join(self) -> None:
        """Wait until both threads have ended."""
        self.reader.join()
        self._worker.join()
