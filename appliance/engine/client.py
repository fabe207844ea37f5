"""Run a model in a worker process and speak to it: the gateway's side of `wire`."""

import asyncio
import contextlib
import socket
import subprocess
from collections import Counter

import structlog

from appliance.channel import Channel, spawn_child
from appliance.engine import wire
from appliance.engine.interface import EngineEvents, EngineStream
from appliance.engine.watchdog import Watchdog
from appliance.errors import (
    ApplianceError,
    ContextTooLong,
    DeadlineExceeded,
    EngineStopped,
    InvalidRequest,
    LoadFailed,
    OutOfMemoryBudget,
    RequestCancelled,
    StepFailed,
    WorkerDied,
)

_CLOSE_SECONDS = 3.0
_REAP_SECONDS = 10.0

log = structlog.get_logger()


class WorkerEngine:
    """An Engine whose model lives in a worker process. Owned by one resident; event loop only.

    `start` once, then `submit`/`cancel`, then `close`. When the worker ends by itself, or is ended
    because it takes longer than `step_timeout` seconds over one step, every open stream fails with
    WorkerDied and `events.on_lost` is called once.
    """

    def __init__(
        self,
        model: str,
        events: EngineEvents,
        worker_arguments: tuple[str, ...] = (),
        step_timeout: float = 60.0,
    ) -> None:
        self.model = model
        self._arguments = worker_arguments
        self._events = events
        self._streams: dict[str, EngineStream] = {}
        self._channel = Channel(wire.from_worker_decoder(), self._on_message, self._on_lost)
        self._watchdog = Watchdog(step_timeout, self._on_stuck)
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: asyncio.Future[wire.Ready] | None = None
        self._gone = asyncio.Event()
        self._failure: ApplianceError | None = None
        self._is_closing = False

    @property
    def pid(self) -> int | None:
        """The worker's process id; None before `start` and in-process."""
        return self._process.pid if self._process else None

    def set_step_timeout(self, seconds: float) -> None:
        """Allow a step another time from now on."""
        self._watchdog.set_step_timeout(seconds)

    async def start(self, load: wire.Load, connection: socket.socket | None = None) -> wire.Ready:
        """Start the worker and load the model; raises LoadFailed.

        With `connection` the other end is already served (an in-process engine) and none is
        spawned. When cancelled, the worker is gone before the cancellation goes on.
        """
        self._ready = asyncio.get_running_loop().create_future()
        if connection is None:
            self._process, connection = spawn_child("appliance.engine.worker", *self._arguments)
        try:
            await self._channel.open(connection)
            self._channel.send(load)
            self._watchdog.start()
            return await self._ready
        except BaseException:
            await asyncio.shield(self.close())
            raise

    def submit(self, submit: wire.Submit, stream: EngineStream | None = None) -> EngineStream:
        """Hand over a request; see Engine."""
        stream = stream or EngineStream()
        if self._gone.is_set():
            stream.fail(
                EngineStopped(f"Model '{self.model}' is not running.")
                if self._is_closing
                else self._death()
            )
            return stream
        self._streams[submit.id] = stream
        self._channel.send(submit)
        return stream

    def cancel(self, request_id: str) -> None:
        """Stop a request within one step; its stream gets nothing more. Unknown ids are ignored."""
        if self._streams.pop(request_id, None) is not None:
            self._channel.send(wire.Cancel(model=self.model, id=request_id))

    async def close(self) -> None:
        """End every request, ask the worker to exit, and kill it if it does not. Idempotent.

        Even one that the kernel does not let go is waited for no longer than 10 s.
        """
        self._is_closing = True
        self._watchdog.stop()
        self._fail_all(EngineStopped(f"Model '{self.model}' was unloaded."))
        self._channel.send(wire.Close(model=self.model))
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._gone.wait()
        except TimeoutError:
            log.warning("worker_killed", model=self.model, pid=self.pid)
        self._channel.abort()
        await asyncio.sleep(0)  # the loop closes the socket in its next turn
        await self._reap()

    async def _reap(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        try:
            await asyncio.to_thread(self._process.wait, _REAP_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("worker_outlived_kill", model=self.model, pid=self.pid)

    def _fail_all(self, error: ApplianceError) -> None:
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.fail(error)

    def _death(self) -> WorkerDied:
        """Return what requests are told that the worker took with it."""
        if self._failure is None:
            return WorkerDied(self.model)
        if isinstance(self._failure, WorkerDied):
            return self._failure
        return WorkerDied(self.model, "failed and was ended")

    def _on_stuck(self, reason: str, seconds: float, step: int | None) -> None:
        log.error(
            "worker_stuck", model=self.model, pid=self.pid, seconds=round(seconds, 3), step=step
        )
        self._failure = WorkerDied(self.model, reason)
        if self._process is not None:
            self._process.kill()
        # A process in the kernel's hands may outlive even this; its requests shall not wait for it.
        self._channel.abort()

    def _on_lost(self) -> None:
        self._gone.set()
        self._watchdog.stop()
        death = self._death()
        self._fail_all(death)
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(
                self._failure
                if isinstance(self._failure, LoadFailed)
                else LoadFailed(self.model, f"its worker {death.reason}", retryable=True)
            )
        elif not self._is_closing:
            self._events.on_lost(self._failure or death)

    def _on_message(self, message: wire.FromWorker) -> None:
        self._watchdog.hear()
        match message:
            case wire.Step():
                self._deliver(message)
            case wire.Accepted(id=request_id):
                if stream := self._streams.get(request_id):
                    stream.accept(message)
            case wire.Refused(id=request_id, error=error):
                if stream := self._streams.pop(request_id, None):
                    stream.fail(_request_error(error))
            case _:
                self._on_load_message(message)

    def _on_load_message(self, message: wire.FromWorker) -> None:
        match message:
            case wire.Progress():
                self._events.on_progress(message)
            case wire.Pulse():
                self._watchdog.pulse(message)
            case wire.Ready():
                self._watchdog.loaded()
                if self._ready is not None and not self._ready.done():
                    self._ready.set_result(message)
            case wire.Failed(error=error):
                self._failure = self._engine_error(error)
            case wire.Hello(version=version) if version != wire.PROTOCOL_VERSION:
                self._failure = LoadFailed(
                    self.model, f"the worker speaks version {version}", retryable=False
                )
                self._channel.close()

    def _deliver(self, step: wire.Step) -> None:
        if step.started or step.preempted:
            self._note_places(step)
        for row in step.rows:
            stream = self._streams.get(row.id)
            if stream is None:
                continue
            if row.end is not None and row.end.error is not None and row.end.error.retryable:
                row.end = None  # the whole engine failed: the worker's death, now due, is the end
            stream.put(row)
            if row.end is not None:
                del self._streams[row.id]
                if row.end.reason not in ("stop", "length"):
                    stream.fail(_end_error(row.end, row.id))
            elif stream.has_failed:
                self.cancel(row.id)
        self._events.on_step(step)

    def _note_places(self, step: wire.Step) -> None:
        balances = Counter(step.started)
        balances.subtract(step.preempted)
        for request_id, balance in balances.items():
            if stream := self._streams.get(request_id):
                stream.note_places(balance)

    def _engine_error(self, error: wire.WireError) -> ApplianceError:
        if error.kind == "load_failed":
            return LoadFailed(self.model, error.message, retryable=error.retryable)
        return StepFailed(error.message)


def _request_error(error: wire.WireError) -> ApplianceError:
    if error.kind == "context_too_long" and error.limit_tokens is not None:
        return ContextTooLong(
            limit_tokens=error.limit_tokens, prompt_tokens=error.prompt_tokens or 0
        )
    if error.kind == "out_of_memory" and error.limit_bytes is not None:
        return OutOfMemoryBudget(
            needed_bytes=error.needed_bytes or 0, limit_bytes=error.limit_bytes
        )
    if error.kind == "deadline":
        return DeadlineExceeded(error.limit_seconds or 0.0)
    if error.kind == "invalid_request":
        return InvalidRequest(error.message, param=error.param)
    if error.kind == "stopped":
        return EngineStopped(error.message)
    return StepFailed(error.message)


def _end_error(end: wire.End, request_id: str) -> ApplianceError:
    if end.error is not None:
        return _request_error(end.error)
    return RequestCancelled(request_id)
