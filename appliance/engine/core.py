"""Run the engine thread: take frames, step the body, publish what it made."""

import queue
import time

import structlog

from appliance.engine.body import Body, OpenBody
from appliance.engine.outbox import Outbox
from appliance.engine.roster import Roster
from appliance.engine.wire import (
    Accepted,
    Cancel,
    Close,
    Drain,
    ErrorKind,
    Failed,
    Limits,
    Load,
    LoadPhase,
    Progress,
    Pulse,
    Ready,
    Refused,
    Row,
    Step,
    Submit,
    ToWorker,
    WireError,
)
from appliance.errors import (
    ContextTooLong,
    InvalidRequest,
    LoadFailed,
    OutOfMemoryBudget,
    RequestError,
)

Inbox = queue.SimpleQueue[ToWorker | None]

_UNLOADED = WireError("stopped", "The model was unloaded.")

log = structlog.get_logger()


class Core:
    """One model's loop, from its load to its end.

    `run` is the engine thread; all state belongs to it. The reader thread puts frames into
    `inbox` (None only wakes), and may call `pulse` and read `body`, which is set before Ready is
    posted.
    """

    def __init__(self, inbox: Inbox, outbox: Outbox, open_body: OpenBody) -> None:
        self.body: Body | None = None
        self._inbox = inbox
        self._outbox = outbox
        self._open_body = open_body
        self._model = ""
        self._roster = Roster()
        # Those whose grammar is being compiled.
        self._unready: dict[str, Submit] = {}
        self._published = (0, 0)
        self._number = 0
        self._started: float | None = None
        self._is_draining = False
        self._is_closing = False
        self._last: Failed | None = None

    def pulse(self) -> Pulse | None:
        """Return what the watchdog wants to know; None before a load. Any thread."""
        if not self._model:
            return None
        started = self._started
        seconds = 0.0 if started is None else time.monotonic() - started
        return Pulse(model=self._model, step=self._number, seconds_in_step=seconds)

    def run(self) -> None:
        """Load the model that the first frame names and serve it until Close or a failure."""
        try:
            load = self._await_load()
            body = self._load(load) if load is not None else None
            if body is not None:
                self._serve(body)
                body.close()
        except Exception as error:  # noqa: BLE001 - the engine thread's outer loop
            self._last = self._fail_engine(error)
            self._roster.end_all(self._last.error)
            self._publish({})
        finally:
            self._outbox.close(self._last)

    def _await_load(self) -> Load | None:
        while True:
            frame = self._inbox.get()
            match frame:
                case Load():
                    self._model = frame.model
                    return frame
                case Close():
                    return None
                case Submit():
                    error = WireError("stopped", "No model is loaded.", retryable=True)
                    self._outbox.post(Refused(model=frame.model, id=frame.id, error=error))
                case _:
                    pass

    def _load(self, load: Load) -> Body | None:
        self._started = begin = time.monotonic()
        try:
            body = self._open_body(load, self._report)
        except LoadFailed as error:
            log.error("load_failed", model=load.model, reason=error.reason)  # noqa: TRY400 - no bug of ours
            self._last = self._failed("load_failed", error.reason, retryable=error.retryable)
            return None
        self._started = None
        self.body = body
        self._outbox.post(
            Ready(
                model=load.model,
                footprint_bytes=body.footprint_bytes,
                context_tokens=body.context_tokens,
            )
        )
        log.info(
            "model_loaded",
            model=load.model,
            seconds=round(time.monotonic() - begin, 3),
            footprint_bytes=body.footprint_bytes,
            context_tokens=body.context_tokens,
        )
        return body

    def _report(self, phase: LoadPhase, done: int, total: int) -> None:
        self._outbox.post(Progress(model=self._model, phase=phase, done=done, total=total))

    def _serve(self, body: Body) -> None:
        while not self._is_closing:
            frames = self._receive(self._patience(body))
            # What a turn does beside its step may hang as well.
            self._started = time.monotonic()
            try:
                self._turn(body, frames)
            except Exception as error:  # noqa: BLE001 - the engine thread's outer loop
                self._recover(body, error)
            self._started = None
        self._started = time.monotonic()
        for submit in self._unready.values():
            self._refuse(submit, _UNLOADED)
        self._roster.end_all(self._last.error if self._last else _UNLOADED)
        self._publish({})

    def _turn(self, body: Body, frames: list[ToWorker]) -> None:
        # First, since what was compiled for them may be dropped for those that come.
        for submit in tuple(self._unready.values()):
            self._take_in(body, submit)
        for frame in frames:
            self._obey(body, frame)
        if self._is_closing:
            return
        self._roster.expire(body)
        self._roster.admit(body)
        if self._roster.has_news or self._published != self._roster.counts:
            self._publish({})
        if self._patience(body) == 0:
            self._step(body)

    def _patience(self, body: Body) -> float | None:
        """Return how long to wait for a frame: 0 with work to do, None for ever."""
        roster = self._roster
        idle = body.idle_seconds()
        if body.waits_for_room and idle is not None and not self._outbox.has_room():
            idle = None
        if idle == 0 or roster.has_news or roster.can_admit(body):
            return 0.0
        waits = [each for each in (idle, roster.seconds_to_deadline()) if each is not None]
        return min(waits, default=None)

    def _receive(self, seconds: float | None) -> list[ToWorker]:
        """Return what has come, waiting up to `seconds` for the first; None waits for ever."""
        frames: list[ToWorker] = []
        try:
            frame = self._inbox.get_nowait() if seconds == 0 else self._inbox.get(timeout=seconds)
            while True:
                if frame is not None:
                    frames.append(frame)
                frame = self._inbox.get_nowait()
        except queue.Empty:
            return frames

    def _obey(self, body: Body, frame: ToWorker) -> None:
        match frame:
            case Submit():
                self._take_in(body, frame)
            case Cancel():
                self._cancel(body, frame.id)
            case Limits():
                self._limit(body, frame)
            case Drain():
                self._is_draining = True
            case Close():
                self._is_closing = True
            case Load():
                log.error("load_ignored", model=frame.model, reason="a model is loaded")

    def _limit(self, body: Body, frame: Limits) -> None:
        try:
            body.set_limits(frame.limits)
        except Exception:  # the engine thread's outer loop: no request is to blame
            log.exception("limits_failed", model=self._model)

    def _take_in(self, body: Body, submit: Submit) -> None:
        """Submit a request, or let it wait until that is quick."""
        is_new = self._unready.get(submit.id, submit) is submit
        if is_new and not body.prepare(submit, self._wake):
            self._unready[submit.id] = submit
            return
        if is_new:
            self._unready.pop(submit.id, None)
        self._submit(body, submit)

    def _wake(self) -> None:
        self._inbox.put(None)

    def _cancel(self, body: Body, request_id: str) -> None:
        submit = self._unready.pop(request_id, None)
        if submit is None:
            self._roster.cancel(body, request_id)
        else:
            self._refuse(submit, WireError("stopped", "The request was cancelled."))

    def _submit(self, body: Body, submit: Submit) -> None:
        try:
            prompt_tokens = self._check(body, submit)
        except (RequestError, OutOfMemoryBudget) as error:
            self._refuse(submit, _wire_error(error))
            return
        except Exception as error:  # the engine thread's outer loop, for one request
            log.exception("check_failed", model=self._model, request_id=submit.id)
            reason = f"The engine could not take the request ({type(error).__name__})."
            self._refuse(submit, WireError("step_failed", reason))
            return
        if self._is_draining or self._is_closing:
            self._refuse(submit, WireError("stopped", "The model is draining.", retryable=True))
            return
        self._roster.add(submit, prompt_tokens)
        self._outbox.post(Accepted(model=self._model, id=submit.id, prompt_tokens=prompt_tokens))

    def _check(self, body: Body, submit: Submit) -> int:
        if submit.id in self._roster or submit.id in self._unready:
            raise InvalidRequest(f"A request '{submit.id}' is running already.")
        if submit.max_tokens < 1:
            raise InvalidRequest("max_tokens must be at least 1.", param="max_tokens")
        prompt_tokens = body.check(submit)
        if prompt_tokens + submit.max_tokens > body.context_tokens:
            raise ContextTooLong(
                limit_tokens=body.context_tokens,
                prompt_tokens=prompt_tokens,
                max_tokens=submit.max_tokens,
            )
        return prompt_tokens

    def _refuse(self, submit: Submit, error: WireError) -> None:
        log.info("request_refused", model=self._model, request_id=submit.id, error=error.kind)
        self._outbox.post(Refused(model=self._model, id=submit.id, error=error))

    def _step(self, body: Body) -> None:
        self._number += 1
        self._started = time.monotonic()
        outcome = body.step()
        rows = self._roster.take_step(outcome)
        self._publish(outcome.seconds, rows)

    def _publish(self, seconds: dict[str, float], rows: list[Row] | None = None) -> None:
        ended, started, preempted = self._roster.take_news()
        self._published = running, waiting = self._roster.counts
        self._outbox.publish(
            Step(
                model=self._model,
                number=self._number,
                seconds=seconds,
                batch_size=running,
                waiting=waiting,
                memory_bytes=self.body.memory_bytes() if self.body else 0,
                rows=[*(rows or ()), *ended],
                started=started,
                preempted=preempted,
            )
        )

    def _recover(self, body: Body, error: Exception) -> None:
        self._roster.recover(body, error)
        if self._roster.is_hopeless(body):
            reason = f"The engine's steps fail ({type(error).__name__})."
            self._last = self._failed("step_failed", reason)
            self._is_closing = True

    def _fail_engine(self, error: Exception) -> Failed:
        log.error("engine_failed", model=self._model, exc_info=error)
        if self.body is None:
            cause = " ".join(f"{type(error).__name__}: {error}".split())
            return self._failed("load_failed", f"the load ended unexpectedly: {cause}")
        return self._failed("step_failed", f"The engine ended ({type(error).__name__}).")

    def _failed(self, kind: ErrorKind, reason: str, *, retryable: bool = True) -> Failed:
        return Failed(model=self._model, error=WireError(kind, reason, retryable))


def _wire_error(error: RequestError | OutOfMemoryBudget) -> WireError:
    match error:
        case ContextTooLong():
            return WireError(
                "context_too_long",
                str(error),
                limit_tokens=error.limit_tokens,
                prompt_tokens=error.prompt_tokens,
            )
        case OutOfMemoryBudget():
            return WireError(
                "out_of_memory",
                str(error),
                needed_bytes=error.needed_bytes,
                limit_bytes=error.limit_bytes,
            )
        case _:
            param = error.param if isinstance(error, InvalidRequest) else None
            return WireError("invalid_request", str(error), param=param)
