"""The gateway's end of a worker, blocking: for tests that speak frames."""

import socket
import subprocess
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from appliance.channel import FrameSplitter, encode_frame, spawn_child
from appliance.chat.request import SamplingParams
from appliance.engine.inprocess import InProcessWorker
from appliance.engine.wire import (
    Accepted,
    Cancel,
    End,
    EngineSettings,
    Failed,
    FromWorker,
    Load,
    Ready,
    Refused,
    ScriptPrompt,
    Step,
    Submit,
    TokenPrompt,
    ToWorker,
    from_worker_decoder,
)

MODEL = "tiny"
GREEDY = SamplingParams(temperature=0)
_PATIENCE_SECONDS = 40.0


@dataclass
class Answer:
    """Everything that came for one id."""

    accepted: Accepted | None = None
    refused: Refused | None = None
    text: str = ""
    tokens: int = 0
    ids: list[int] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)

    @property
    def end(self) -> End:
        """The end, of which there must be one."""
        (end,) = self.ends
        return end


class WorkerClient:
    """Sends frames and sorts what comes back by request id."""

    def __init__(self, sock: socket.socket, process: subprocess.Popen[bytes] | None) -> None:
        sock.settimeout(_PATIENCE_SECONDS)
        self.sock = sock
        self.process = process
        self.frames: list[FromWorker] = []
        self.answers: dict[str, Answer] = {}
        self._unread: deque[FromWorker] = deque()
        self._splitter = FrameSplitter()
        self._decoder = from_worker_decoder()

    @classmethod
    def spawn(cls) -> "WorkerClient":
        """Return the client of a new worker process."""
        process, sock = spawn_child("appliance.engine.worker")
        return cls(sock, process)

    @classmethod
    def in_process(cls) -> "WorkerClient":
        """Return the client of a worker in this process."""
        return cls(InProcessWorker().connection, None)

    def send(self, *frames: ToWorker) -> None:
        """Send frames in one write."""
        self.sock.sendall(b"".join(map(encode_frame, frames)))

    def load(self, path: Path, engine: EngineSettings) -> Ready:
        """Load a model and return what the worker says of it."""
        self.send(Load(model=MODEL, directory=str(path), engine=engine))
        frame = self.until(lambda frame: isinstance(frame, Ready | Failed))
        assert isinstance(frame, Ready), frame
        return frame

    def until(self, is_wanted: Callable[[FromWorker], bool]) -> FromWorker:
        """Read frames up to the first that is wanted and return it."""
        while True:
            frame = self._read()
            self.frames.append(frame)
            self._sort(frame)
            if is_wanted(frame):
                return frame

    def until_ended(self, ids: Iterable[str]) -> None:
        """Read until each of `ids` has ended or been refused."""
        while not all(self._has_ended(request_id) for request_id in ids):
            self.until(lambda frame: isinstance(frame, Step | Refused))

    def ask(self, *submits: Submit) -> list[Answer]:
        """Send requests together and return their whole answers, in the same order."""
        self.send(*submits)
        self.until_ended([submit.id for submit in submits])
        return [self.answers[submit.id] for submit in submits]

    def steps(self) -> list[Step]:
        """Return every step that came so far."""
        return [frame for frame in self.frames if isinstance(frame, Step)]

    def close(self) -> None:
        """Close our end and wait until the process has gone."""
        self.sock.close()
        if self.process is not None:
            self.process.wait(timeout=10)

    def _read(self) -> FromWorker:
        while not self._unread:
            data = self.sock.recv(2**18)
            if not data:
                raise EOFError
            self._unread.extend(map(self._decoder.decode, self._splitter.feed(data)))
        return self._unread.popleft()

    def _sort(self, frame: FromWorker) -> None:
        match frame:
            case Accepted():
                self.answers.setdefault(frame.id, Answer()).accepted = frame
            case Refused():
                self.answers.setdefault(frame.id, Answer()).refused = frame
            case Step():
                for row in frame.rows:
                    answer = self.answers[row.id]
                    answer.text += row.text
                    answer.tokens += row.tokens
                    answer.ids += row.ids
                    answer.ends += [row.end] if row.end else []
            case _:
                pass

    def _has_ended(self, request_id: str) -> bool:
        answer = self.answers.get(request_id)
        return answer is not None and bool(answer.ends or answer.refused)


def tokens(
    request_id: str,
    ids: list[int],
    max_tokens: int,
    sampling: SamplingParams = GREEDY,
    *,
    ignore_eos: bool = True,
) -> Submit:
    """Return a request to a language model."""
    return Submit(MODEL, request_id, TokenPrompt(ids), max_tokens, sampling, ignore_eos)


def words(request_id: str, text: str, max_tokens: int = 1000) -> Submit:
    """Return a request to a scripted model."""
    return Submit(MODEL, request_id, ScriptPrompt(text, len(text.split())), max_tokens)


def cancel(request_id: str) -> Cancel:
    """Return a cancel."""
    return Cancel(MODEL, request_id)
