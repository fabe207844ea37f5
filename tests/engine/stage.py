"""A Core on the test's own thread: turn by turn, the same each time."""

import queue
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import mlx.core as mx
from structlog.testing import capture_logs

from appliance.engine.body import Body, OpenBody
from appliance.engine.core import Core
from appliance.engine.device import Device
from appliance.engine.loader import load_body
from appliance.engine.outbox import Outbox
from appliance.engine.wire import (
    Close,
    EngineSettings,
    Failed,
    Load,
    MemoryLimits,
    Submit,
    ToWorker,
)
from tests.engine.worker_client import MODEL, Transcript

Script = Iterator[Sequence[ToWorker]]

# Two kinds of devices that the engine steps for; their answers are the same.
CPU = Device(runs_ahead=False, plans_shapes=False)
GPU = Device(runs_ahead=True, plans_shapes=True)
_MOST_TURNS = 5000
_ROOMY = 2**40


def open_as(device: Device) -> OpenBody:
    """Return what loads language models for a device, on the one that there is."""
    return partial(load_body, device=device)


class Stage(Transcript):
    """Runs a body in a Core, and a script that says what the gateway sends before each turn."""

    def __init__(
        self,
        open_body: OpenBody,
        folder: Path,
        engine: EngineSettings,
        limits: MemoryLimits | None = None,
    ) -> None:
        super().__init__()
        self._open_body = open_body
        self._load = Load(MODEL, str(folder), engine, limits or MemoryLimits())
        self._outbox = Outbox(wake=_ignore, on_room=_ignore)
        self._script: Script = iter(())
        self._unread: deque[ToWorker] = deque([self._load])
        self._is_turn_over = False
        self._error: BaseException | None = None
        self._core: Core | None = None

    @property
    def body(self) -> Body:
        """The body, once it is loaded."""
        assert self._core is not None
        assert self._core.body is not None
        return self._core.body

    def play(self, script: Script) -> None:
        """Load, do what the script says, and close; raises what the script raised."""
        self._script = script
        self._core = Core(_Inbox(self._receive), self._outbox, self._open_body)
        memory_limit = mx.set_memory_limit(_ROOMY)
        mx.set_memory_limit(memory_limit)
        # Also because a traceback of an unconfigured log shows every local variable, slowly.
        with capture_logs():
            self._core.run()
        mx.set_memory_limit(memory_limit)
        self._read()
        if self._error is not None:
            raise self._error

    def failure(self) -> Failed | None:
        """Return the engine's last word if it gave up."""
        last = self.frames[-1]
        return last if isinstance(last, Failed) else None

    def ended(self, *submits: Submit) -> Script:
        """Send requests and let turns pass until all have ended."""
        yield list(submits)
        yield from self.until(lambda: self.have_ended(each.id for each in submits))

    def until(self, is_so: Callable[[], bool]) -> Script:
        """Let turns pass until something is so."""
        for _ in range(_MOST_TURNS):
            if is_so():
                return
            yield []
        raise AssertionError("The engine goes on for ever, or waits for ever.")

    def _receive(self, timeout: float | None) -> ToWorker:
        """Return the next frame of this turn; raises Empty at its end."""
        while not self._unread:
            if self._is_turn_over:
                self._is_turn_over = False
                raise queue.Empty
            self._unread.extend(self._next_turn())
            self._is_turn_over = True
            if timeout is None and not self._unread:
                self._is_turn_over = False
        return self._unread.popleft()

    def _next_turn(self) -> Sequence[ToWorker]:
        self._read()
        try:
            return next(self._script, [Close(MODEL)])
        except BaseException as error:  # noqa: BLE001 - raised again when the core has ended
            self._error = error
            return [Close(MODEL)]

    def _read(self) -> None:
        for frame in self._outbox.take():
            self.note(frame)


class _Inbox(queue.SimpleQueue[ToWorker | None]):
    """A queue that asks for each frame when the core wants it."""

    def __init__(self, receive: Callable[[float | None], ToWorker]) -> None:
        super().__init__()
        self._receive = receive

    def get(self, block: bool = True, timeout: float | None = None) -> ToWorker:
        return self._receive(timeout)

    def get_nowait(self) -> ToWorker:
        return self._receive(0.0)


def _ignore() -> None:
    """Nobody waits for the outbox here."""
