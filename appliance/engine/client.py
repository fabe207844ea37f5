"""Run a model in a worker process and speak to it: the gateway's side of `wire`."""

import asyncio
import contextlib
import socket
import subprocess

import structlog

from appliance.channel import Channel, spawn_child
from appliance.engine import wire
from appliance.engine.interface import EngineEvents, EngineStream
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

log = structlog.get_logger()


class WorkerEngine:
    """An Engine whose model lives in a worker process. Owned by one resident; event loop only.

    `start` once, then `submit`/`cancel`, then `close`. When the worker ends by itself every open
    stream fails with WorkerDied and `events.on_lost` is called once.
    """

    def __init__(
        self, model: str, events: EngineEvents, worker_arguments: tuple[str, ...] = ()
    ) -> None:
        self.model = model
        self._arguments = worker_arguments
        self._events = events
        self._streams: dict[str, EngineStream] = {}
        self._channel = Channel(wire.from_worker_decoder(), self._on_message, self._on_lost)
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: asyncio.Future[wire.Ready] | None = None
        self._gone = asyncio.Event()
        self._failure: ApplianceError | None = None
        self._is_closing = False

    @property
    def pid(self) -> int | None:
        """The worker's process id; None before `start` and in-process."""
        return self._process.pid if self._process else None

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
            return await self._ready
        except BaseException:
            await asyncio.shield(self.close())
            raise

    def submit(self, submit: wire.Submit) -> EngineStream:
        """Hand over a request; see Engine."""
        stream = EngineStream()
        if self._gone.is_set():
            stream.fail(self._failure or EngineStopped(f"Model '{self.model}' is not running."))
            return stream
        self._streams[submit.id] = stream
        self._channel.send(submit)
        return stream

    def cancel(self, request_id: str) -> None:
        """Stop a request within one step; its stream gets nothing more. Unknown ids are ignored."""
        if self._streams.pop(request_id, None) is not None:
            self._channel.send(wire.Cancel(model=self.model, id=request_id))

    async def close(self) -> None:
        """End every request, ask the worker to exit, and kill it if it does not. Idempotent."""
        self._is_closing = True
        self._fail_all(EngineStopped(f"Model '{self.model}' was unloaded."))
        self._channel.send(wire.Close(model=self.model))
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._gone.wait()
        except TimeoutError:
            log.warning("worker_killed", model=self.model, pid=self.pid)
        self._channel.close()
        await self._reap()

    async def _reap(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await asyncio.to_thread(self._process.wait)

    def _fail_all(self, error: ApplianceError) -> None:
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.fail(error)

    def _on_lost(self) -> None:
        self._gone.set()
        error = self._failure or WorkerDied(self.model)
        self._fail_all(error)
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(
                error
                if isinstance(error, LoadFailed)
                else LoadFailed(self.model, "the worker ended while loading", retryable=True)
            )
        elif not self._is_closing:
            self._events.on_lost(error)

    def _on_message(self, message: wire.FromWorker) -> None:
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
            case wire.Ready():
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
        for row in step.rows:
            stream = self._streams.get(row.id)
            if stream is None:
                continue
            stream.put(row)
            if row.end is not None:
                del self._streams[row.id]
                if row.end.reason not in ("stop", "length"):
                    stream.fail(_end_error(row.end, row.id))
            elif stream.has_failed:
                self.cancel(row.id)
        self._events.on_step(step)

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
