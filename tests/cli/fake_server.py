"""Answer like an appliance, with what a test says, and remember what was asked."""

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Content = bytes | Iterable[bytes]


@dataclass(frozen=True)
class Asked:
    """One request as it came; `content` is what stood in its body."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes


@dataclass
class FakeAppliance:
    """Its URL; `answers` are (status, content), taken in order; `bodies` is what was posted."""

    url: str
    answers: list[tuple[int, Content]]
    bodies: list[Any] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)


@contextlib.contextmanager
def fake_appliance(*answers: tuple[int, Content]) -> Iterator[FakeAppliance]:
    """Serve on a free port of this machine until the block ends.

    A content that is no bytes is streamed piece by piece; once all answers are given it is 503.
    """
    fake = FakeAppliance("", list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            fake.asked.append(Asked(self.command, self.path, headers, content))
            if headers.get("content-type") == "application/json":
                fake.bodies.append(json.loads(content))
            status, answer = fake.answers.pop(0) if fake.answers else refusal(503, "No more.")
            self.send_response(status)
            self.end_headers()
            # The command may leave while it is being answered.
            with contextlib.suppress(ConnectionError):
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    self.wfile.write(piece)

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


def refusal(
    status: int, message: str, problems: list[dict[str, Any]] | None = None
) -> tuple[int, bytes]:
    """Return an error answer as the appliance sends it."""
    error: dict[str, Any] = {"message": message, "type": "invalid_request_error", "code": None}
    if problems is not None:
        error["problems"] = problems
    return status, json.dumps({"error": error}).encode()


def body(**fields: object) -> tuple[int, bytes]:
    """Return a good answer with these fields."""
    return 200, json.dumps(fields).encode()


def event(**fields: object) -> bytes:
    """Return one server-sent event with these fields."""
    return f"data: {json.dumps(fields)}\n\n".encode()


def model(name: str, phase: str = "ready", **fields: object) -> dict[str, object]:
    """Return a model of a status, as it is wanted unless `fields` say otherwise."""
    keys = {"desired_key": "k1", "observed_key": None if phase == "absent" else "k1"}
    return {"name": name, "phase": phase, "wish": "must", **keys, **fields}


def status(
    *models: dict[str, object], state: str = "converged", **fields: object
) -> dict[str, object]:
    """Return a status of revision 2, for `body` or `event`."""
    sizes = {"budget_bytes": 8 * 2**30, "held_bytes": 2**30}
    return {"state": state, "number": 2, "revision": "r2", "models": models, **sizes, **fields}
