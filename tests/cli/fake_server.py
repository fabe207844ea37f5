"""Answer like an appliance, with what a test says, and remember what was asked."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class FakeAppliance:
    """Its URL; `answers` are (status, content), taken in order; `bodies` is what was posted."""

    url: str
    answers: list[tuple[int, bytes]]
    bodies: list[Any] = field(default_factory=list)


@contextlib.contextmanager
def fake_appliance(*answers: tuple[int, bytes]) -> Iterator[FakeAppliance]:
    """Serve on a free port of this machine until the block ends."""
    fake = FakeAppliance("", list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            size = int(self.headers["content-length"])
            fake.bodies.append(json.loads(self.rfile.read(size)))
            self._answer()

        def _answer(self) -> None:
            status, content = fake.answers.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def chat_stream(*pieces: str, ending: str = "data: [DONE]\n\n") -> bytes:
    """Return a chat answer as server-sent events."""
    chunks = ({"choices": [{"delta": {"content": piece}}]} for piece in pieces)
    return ("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + ending).encode()
