"""The gateway's end of a worker, blocking: for tests that speak frames."""

import socket
import subprocess
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    TokenLogprob,
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
    logprobs: list[TokenLogprob] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)

    @property
    def end(self) -> End:
        """The end, of which there must be one."""
        (end,) = self.ends
        return end


_NOTHING = Answer()


class Transcript:
    """The frames of a worker, and what they say sorted by request id."""

    def __init__(self) -> None:
        self.frames: list[FromWorker] = []
        self.answers: dict[str, Answer] = {}

    def note(self, frame: FromWorker) -> None:
        """Add a frame."""
        self.frames.append(frame)
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
                    answer.logprobs += row.logprobs
                    answer.ends += [row.end] if row.end else []
            case _:
                pass

    def steps(self) -> list[Step]:
        """Return every step that came so far."""
        return [frame for frame in self.frames if isinstance(frame, Step)]

    def started(self) -> list[str]:
        """Return the ids that entered the batch, each time that they did."""
        return [name for step in self.steps() for name in step.started]

    def have_ended(self, ids: Iterable[str]) -> bool:
        """Say whether each of `ids` has ended or been refused."""
        answers = [self.answers.get(request_id, _NOTHING) for request_id in ids]
        return all(answer.ends or answer.refused for answer in answers)


class WorkerClient(Transcript):
    """Sends frames and sorts what comes back by request id."""

    def __init__(self, sock: socket.socket, process: subprocess.Popen[bytes] | None) -> None:
        super().__init__()
        sock.settimeout(_PATIENCE_SECONDS)
        self.sock = sock
        self.process = process
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
            self.note(frame)
            if is_wanted(frame):
                return frame

    def until_ended(self, ids: Iterable[str]) -> None:
        """Read until each of `ids` has ended or been refused."""
        wanted = list(ids)
        while not self.have_ended(wanted):
            self.until(lambda frame: isinstance(frame, Step | Refused))

    def ask(self, *submits: Submit) -> list[Answer]:
        """Send requests together and return their whole answers, in the same order."""
        self.send(*submits)
        self.until_ended([submit.id for submit in submits])
        return [self.answers[submit.id] for submit in submits]

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


def tokens(
    request_id: str,
    ids: list[int],
    max_tokens: int,
    sampling: SamplingParams = GREEDY,
    *,
    ignore_eos: bool = True,
    **fields: Any,  # noqa: ANN401
) -> Submit:
    """Return a request to a language model; `fields` are more of Submit's."""
    prompt = TokenPrompt(ids)
    return Submit(MODEL, request_id, prompt, max_tokens, sampling, ignore_eos, **fields)


def words(request_id: str, text: str, max_tokens: int = 1000) -> Submit:
    """Return a request to a scripted model."""
    return Submit(MODEL, request_id, ScriptPrompt(text, len(text.split())), max_tokens)


def cancel(request_id: str) -> Cancel:
    """Return a cancel."""
    return Cancel(MODEL, request_id)
