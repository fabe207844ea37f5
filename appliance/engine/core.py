"""Run the engine thread: take frames, keep the queue, step the body, publish what it made."""

import queue
import time
from collections.abc import Iterator

import structlog

from appliance.engine.body import Body, OpenBody
from appliance.engine.outbox import Outbox
from appliance.engine.wire import (
    Accepted,
    Cancel,
    Close,
    Drain,
    End,
    EndReason,
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
from appliance.errors import ContextTooLong, InvalidRequest, LoadFailed, RequestError

Inbox = queue.SimpleQueue[ToWorker | None]

_UNLOADED = WireError("stopped", "The model was unloaded.")
_MAX_FAILURES = 2

log = structlog.get_logger()


class Core:
    """One model's sequences, from Submit to their end row.

    `run` is the engine thread; all state belongs to it. The reader thread puts frames into
    `inbox` (None only wakes), and may call `pulse` and read `body`, which is set before Ready is
    posted. Requests beyond the body's `max_sequences` wait here in the order they came.
    """

    def __init__(self, inbox: Inbox, outbox: Outbox, open_body: OpenBody) -> None:
        self.body: Body | None = None
        self._inbox = inbox
        self._outbox = outbox
        self._open_body = open_body
        self._model = ""
        self._waiting: dict[str, Submit] = {}
        self._running: dict[str, int] = {}
        self._ended: list[Row] = []
        self._published = (0, 0)
        self._number = 0
        self._started: float | None = None
        self._failures = 0
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
        needs_reset = False
        while not self._is_closing:
            try:
                if needs_reset:
                    body.reset()
                    needs_reset = False
                self._turn(body)
            except Exception as error:  # noqa: BLE001 - the engine thread's outer loop
                self._fail_batch(error)
                needs_reset = True
        self._end_all(self._last.error if self._last else _UNLOADED)
        self._publish(body, {})

    def _turn(self, body: Body) -> None:
        for frame in self._receive(self._patience(body)):
            self._obey(body, frame)
        if self._is_closing:
            return
        self._admit(body)
        if self._ended or self._published != (len(self._running), len(self._waiting)):
            self._publish(body, {})
        if self._patience(body) == 0:
            self._step(body)

    def _patience(self, body: Body) -> float | None:
        if self._ended or (self._waiting and len(self._running) < body.max_sequences):
            return 0.0
        if not self._running:
            return None
        if body.waits_for_room and not self._outbox.has_room():
            return None
        return body.idle_seconds()

    def _receive(self, seconds: float | None) -> Iterator[ToWorker]:
        """Yield what has come, waiting up to `seconds` for the first; None waits for ever."""
        try:
            frame = self._inbox.get_nowait() if seconds == 0 else self._inbox.get(timeout=seconds)
            while True:
                if frame is not None:
                    yield frame
                frame = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _obey(self, body: Body, frame: ToWorker) -> None:
        match frame:
            case Submit():
                self._submit(body, frame)
            case Cancel():
                self._cancel(body, frame.id)
            case Limits():
                body.set_limits(frame.limits)
            case Drain():
                self._is_draining = True
            case Close():
                self._is_closing = True
            case Load():
                log.error("load_ignored", model=frame.model, reason="a model is loaded")

    def _submit(self, body: Body, submit: Submit) -> None:
        try:
            prompt_tokens = self._check(body, submit)
        except RequestError as error:
            self._refuse(submit, _wire_error(error))
            return
        except Exception as error:  # noqa: BLE001 - the engine thread's outer loop, for one request
            self._refuse(submit, self._fail_request(submit, error))
            return
        if self._is_draining or self._is_closing:
            self._refuse(submit, WireError("stopped", "The model is draining.", retryable=True))
            return
        self._waiting[submit.id] = submit
        self._outbox.post(Accepted(model=self._model, id=submit.id, prompt_tokens=prompt_tokens))

    def _check(self, body: Body, submit: Submit) -> int:
        if submit.id in self._waiting or submit.id in self._running:
            raise InvalidRequest(f"A request '{submit.id}' is running already.")
        if submit.max_tokens < 1:
            raise InvalidRequest("max_tokens must be at least 1.", param="max_tokens")
        prompt_tokens = body.count_prompt(submit)
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

    def _cancel(self, body: Body, request_id: str) -> None:
        if self._waiting.pop(request_id, None) is not None:
            self._ended.append(_end_row(request_id, 0, "cancelled"))
        elif request_id in self._running:
            body.remove(request_id)
            self._ended.append(_end_row(request_id, self._running.pop(request_id), "cancelled"))

    def _admit(self, body: Body) -> None:
        while self._waiting and len(self._running) < body.max_sequences:
            request_id = next(iter(self._waiting))
            submit = self._waiting.pop(request_id)
            try:
                body.insert(submit)
            except Exception as error:  # noqa: BLE001 - the outer loop, for one request
                end = self._fail_request(submit, error)
                self._ended.append(_end_row(request_id, 0, end))
            else:
                self._running[request_id] = 0

    def _step(self, body: Body) -> None:
        self._number += 1
        self._started = time.monotonic()
        try:
            outcome = body.step()
        finally:
            self._started = None
        self._failures = 0
        for row in outcome.rows:
            self._running[row.id] += row.tokens
            if row.id in outcome.ends:
                row.end = _end(self._running.pop(row.id), outcome.ends.pop(row.id))
        for request_id, end in outcome.ends.items():
            self._ended.append(_end_row(request_id, self._running.pop(request_id), end))
        self._publish(body, outcome.seconds, outcome.rows)

    def _publish(
        self, body: Body, seconds: dict[str, float], rows: list[Row] | None = None
    ) -> None:
        self._published = (len(self._running), len(self._waiting))
        ended, self._ended = self._ended, []
        self._outbox.publish(
            Step(
                model=self._model,
                number=self._number,
                seconds=seconds,
                batch_size=len(self._running),
                waiting=len(self._waiting),
                memory_bytes=body.memory_bytes(),
                rows=[*(rows or ()), *ended],
            )
        )

    def _fail_batch(self, error: Exception) -> None:
        log.error("step_failed", model=self._model, request_ids=list(self._running), exc_info=error)
        reason = f"The engine's step failed ({type(error).__name__})."
        for request_id, tokens in self._running.items():
            self._ended.append(_end_row(request_id, tokens, WireError("step_failed", reason)))
        self._running.clear()
        self._failures += 1
        if self._failures >= _MAX_FAILURES:
            self._last = self._failed("step_failed", reason)
            self._is_closing = True

    def _fail_request(self, submit: Submit, error: Exception) -> WireError:
        log.error("insert_failed", model=self._model, request_id=submit.id, exc_info=error)
        reason = f"The engine could not take the request ({type(error).__name__})."
        return WireError("step_failed", reason)

    def _fail_engine(self, error: Exception) -> Failed:
        log.error("engine_failed", model=self._model, exc_info=error)
        if self.body is None:
            cause = " ".join(f"{type(error).__name__}: {error}".split())
            return self._failed("load_failed", f"the load ended unexpectedly: {cause}")
        return self._failed("step_failed", f"The engine ended ({type(error).__name__}).")

    def _end_all(self, error: WireError) -> None:
        for request_id, tokens in (self._running | dict.fromkeys(self._waiting, 0)).items():
            self._ended.append(_end_row(request_id, tokens, error))
        self._running.clear()
        self._waiting.clear()

    def _failed(self, kind: ErrorKind, reason: str, *, retryable: bool = True) -> Failed:
        return Failed(model=self._model, error=WireError(kind, reason, retryable))


def _end(tokens: int, end: EndReason | WireError) -> End:
    return End("error", tokens, end) if isinstance(end, WireError) else End(end, tokens)


def _end_row(request_id: str, tokens: int, end: EndReason | WireError) -> Row:
    return Row(id=request_id, text="", tokens=0, end=_end(tokens, end))


def _wire_error(error: RequestError) -> WireError:
    if isinstance(error, ContextTooLong):
        return WireError(
            "context_too_long",
            str(error),
            limit_tokens=error.limit_tokens,
            prompt_tokens=error.prompt_tokens,
        )
    param = error.param if isinstance(error, InvalidRequest) else None
    return WireError("invalid_request", str(error), param=param)
