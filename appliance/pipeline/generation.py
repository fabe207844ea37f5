"""Carry one request from its lease to its one end: lease, render, submit, read, release."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

import msgspec
import structlog

from appliance.chat.client import TextProcess
from appliance.chat.event import FinishReason, GenerationEvent, Usage
from appliance.chat.request import ChatRequest, Sampling
from appliance.chat.sampling import resolve_sampling
from appliance.engine.interface import EngineStream
from appliance.engine.wire import Row, Submit
from appliance.errors import (
    ApplianceError,
    DeadlineExceeded,
    InvalidRequest,
    RequestCancelled,
    WorkerDied,
)
from appliance.manifest.spec import LimitsSpec
from appliance.pipeline.answer import Answer
from appliance.pipeline.bound import bounded_request, check_bounds, find_bounds
from appliance.pipeline.prompt import answer_tokens, check_served, render_prompt
from appliance.pipeline.sender import RequestIds
from appliance.registry.lease import Lease
from appliance.registry.registry import Registry
from appliance.registry.resident import Loaded

_BACKSTOP_SECONDS = 1.0
"""How much later than the gateway the worker ends a request: it cannot name the caller's limit."""

log = structlog.get_logger()


class Stage(StrEnum):
    """What a request is waiting for."""

    MODEL = "model"
    """Its model is being loaded."""
    TEXT = "text"
    """Its prompt is being rendered."""
    QUEUE = "queue"
    """The engine has not taken it yet."""
    PREFILL = "prefill"
    """The engine has it; no text came yet."""
    DECODE = "decode"
    """Text is coming."""
    ENDED = "ended"
    """It has ended, one way or the other."""


@dataclass(slots=True)
class Timeline:
    """When things happened to a request; monotonic seconds, None = not yet."""

    arrived: float = field(default_factory=time.monotonic)
    started: float | None = None
    first_text: float | None = None
    last_text: float | None = None


@dataclass(frozen=True, slots=True)
class Pipe:
    """What every generation needs of the appliance."""

    registry: Registry
    text: TextProcess
    limits: LimitsSpec


class Generation:
    """One request. Made, read and closed by its HTTP task; `abort` may come from any other task.

    `start` once; then `opened`; then `next_events` until Finished or an exception; and
    `close` on every way out. Event loop only.

    A request whose worker dies is submitted once more, without its reader's noticing, unless some
    of its answer was delivered. With `is_whole` nothing is, before the end; the reader then looks
    at `is_renewed`: once it is true, what came before counts no more.
    """

    def __init__(
        self, ids: RequestIds, request: ChatRequest, pipe: Pipe, lease: Lease | None = None
    ) -> None:
        """With `lease` its copy is asked, whatever the request's model; `close` releases it."""
        self.id = ids.own
        self.ids = ids
        self.request = request
        self.times = Timeline()
        self.stage = Stage.MODEL
        self.error: Exception | None = None
        self.model_name: str | None = None
        self.is_whole = False
        self.is_renewed = False
        self._pipe = pipe
        self._new_answer: Callable[[], Answer] = partial(Answer, request)
        self._answer = self._new_answer()
        self._lease = lease
        self._loaded: Loaded | None = None
        self._submit: Submit | None = None  # only as long as it may be submitted again
        self._stream = EngineStream(self._on_running)
        self._opening: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def usage(self) -> Usage:
        """The tokens so far; those of a worker that was lost do not count."""
        return self._answer.usage

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the answer ended, once `next_events` has returned its end."""
        return self._answer.finish_reason

    @property
    def is_repetition(self) -> bool:
        """Say whether the answer was ended for going round in circles."""
        return self._answer.is_repetition

    def start(self) -> None:
        """Take the lease, at once, and begin the rest.

        Raises ModelNotFound, QueueFull, or InvalidRequest for a field that cannot be honoured.
        """
        try:
            self._lease = self._take_lease()
        except ApplianceError as error:
            self.error = error
            raise
        most = self._pipe.limits.request_timeout
        seconds = min(self.request.timeout_seconds or most, most)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(seconds, self.abort, DeadlineExceeded(seconds))
        self._opening = asyncio.create_task(self._open(self._lease))

    @property
    def has_own_deadline(self) -> bool:
        """Say whether the caller allows it less time than the server does."""
        most = self._pipe.limits.request_timeout
        return (self.request.timeout_seconds or most) < most

    async def opened(self, within_seconds: float | None = None) -> bool:
        """Wait until the engine took the request and return True; False if time ran out first.

        Raises what the request was refused with.
        """
        assert self._opening is not None
        if not self._opening.done():
            await asyncio.wait([self._opening], timeout=within_seconds)
            if not self._opening.done():
                return False
        if self.error is not None:
            raise self.error
        try:
            self._opening.result()
        except Exception as error:
            self.error = error  # whatever it is: the record tells a crash from a cancel
            raise
        return True

    async def next_events(self) -> list[GenerationEvent]:
        """Return what came since the last call, waiting for something; after `opened` only.

        May return an empty list (see `wake`). Finished is the last event of the last list.
        Raises the error the request ended with.
        """
        try:
            rows = await self._stream.take()
        except ApplianceError as error:
            if self._renew(error):
                self._opening = asyncio.create_task(self._reopen())
                return []
            self.error = self.error or error
            raise self.error from None
        if self.error is not None:
            raise self.error
        self._note_accepted()
        events = self._read(rows) if rows else []
        if events and not self.is_whole:
            self._submit = None
        return events

    def wake(self) -> None:
        """Let a waiting `next_events` return now, with nothing if nothing came."""
        self._stream.wake()

    def abort(self, error: ApplianceError) -> None:
        """End the request with `error` in whatever stage it is; its reader gets the error."""
        if self.stage is Stage.ENDED or self.error is not None or self.finish_reason is not None:
            return
        self.error = error
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        self._stream.fail(error)
        self._cancel_in_engine()

    def cancel(self) -> None:
        """Abort on behalf of a person who asked for it."""
        self.abort(RequestCancelled(self.id))

    def close(self) -> None:
        """Let go of everything the request holds. Plain, idempotent; call on every way out."""
        if self.stage is not Stage.ENDED:
            self._cancel_in_engine()
        self.stage = Stage.ENDED
        if (
            self._opening is not None
            and not self._opening.cancel()
            and not self._opening.cancelled()
        ):
            self._opening.exception()  # nobody may be left to ask for it
        if self._deadline is not None:
            self._deadline.cancel()
        if self._lease is not None:
            self._lease.release()

    def _cancel_in_engine(self) -> None:
        if self._loaded is not None:
            self._loaded.engine.cancel(self.id)

    def _take_lease(self) -> Lease:
        registry, request, lease = self._pipe.registry, self.request, self._lease
        spec = lease.spec if lease is not None else registry.find(request.model).spec
        self.model_name = spec.name
        check_served(request, spec)
        cap, asked = self._pipe.limits.max_output_tokens, request.max_tokens
        if asked is not None and asked > cap and not request.clamps_max_tokens:
            raise InvalidRequest(
                f"{request.limit_param} is {asked}; this server allows at most {cap}.",
                param=request.limit_param,
            )
        return lease or registry.lease(request.model)

    async def _open(self, lease: Lease) -> None:
        text, sender = self._pipe.text, self.ids.sender
        if lease.resident.loaded is None:
            await check_bounds(self.request, lease, text)  # while a refusal has its own status
        loaded = await lease.ready()
        self.stage = Stage.TEXT
        request = bounded_request(self.request, lease, text)
        prompt = await render_prompt(request, lease, text, loaded.context_tokens)
        bounds = await find_bounds(request, lease, text, prompt.tail)
        loaded = await lease.ready()  # the worker may have been replaced meanwhile
        cap = self._pipe.limits.max_output_tokens
        most = answer_tokens(request, prompt, cap, loaded.context_tokens)
        self._new_answer = partial(Answer, request, bounds.reading)
        self._answer = self._new_answer()
        self._submit = Submit(
            model=lease.resident.spec.name,
            id=self.id,
            prompt=prompt.content,
            max_tokens=most,
            sampling=resolve_sampling(
                request.sampling,
                Sampling(**lease.spec.sampling.model_dump()),
                loaded.generation_config,
            ),
            ignore_eos=request.ignore_eos,
            min_tokens=min(request.min_tokens, most),
            stop_token_ids=request.stop_token_ids,
            logprobs=request.logprobs,
            key=sender.key_name,
            weight=sender.weight,
            priority=sender.lowered_priority(request.priority),
            grammar=bounds.grammar,
            thought=bounds.thought,
            shown=bounds.shown,
        )
        await self._hand_over(lease, loaded)

    async def _hand_over(self, lease: Lease, loaded: Loaded) -> None:
        self._enter(loaded)
        try:
            await self._stream.accepted()
        except WorkerDied as error:
            if not self._renew(error):
                raise
            self._enter(await lease.ready(is_patient=True))
            await self._stream.accepted()
        self._note_accepted()

    def _enter(self, loaded: Loaded) -> None:
        assert self._submit is not None
        self.stage = Stage.QUEUE
        self._loaded = loaded
        seconds = self._seconds_left() + _BACKSTOP_SECONDS
        submit = msgspec.structs.replace(self._submit, timeout_seconds=seconds)
        if self.is_renewed:
            self._submit = None
        loaded.engine.submit(submit, self._stream)

    def _renew(self, error: ApplianceError) -> bool:
        """Say whether the request is to be submitted again, and make ready for that."""
        is_lost = isinstance(error, WorkerDied) and self.error is None
        if not is_lost or self._submit is None:
            return False
        log.info("request_requeued", request_id=self.id, model=self.model_name)
        self.is_renewed = True
        self.stage, self._loaded = Stage.MODEL, None
        self.times.started = self.times.last_text = None
        if self._lease is not None:
            self._lease.mark_running(False)
        self._answer = self._new_answer()
        self._stream = EngineStream(self._on_running)
        return True

    async def _reopen(self) -> None:
        assert self._lease is not None
        try:
            self._enter(await self._lease.ready(is_patient=True))
        except ApplianceError as error:
            self._stream.fail(error)

    def _on_running(self, is_running: bool) -> None:
        if self.times.started is None:
            self.times.started = time.monotonic()
        if self._lease is not None:
            self._lease.mark_running(is_running)

    def _note_accepted(self) -> None:
        accepted = self._stream.acceptance
        if self.stage is Stage.QUEUE and accepted is not None:
            self.stage = Stage.PREFILL
            self._answer.accept(accepted)

    def _read(self, rows: list[Row]) -> list[GenerationEvent]:
        self.stage = Stage.DECODE
        answer = self._answer
        events = answer.read(rows)
        if answer.is_cut:
            self._cancel_in_engine()
        if answer.has_broken_call and answer.finish_reason is not None:
            log.warning("tool_call_broken", request_id=self.id, model=self.model_name)
        return events

    def _seconds_left(self) -> float:
        assert self._deadline is not None
        return max(0.0, self._deadline.when() - asyncio.get_running_loop().time())
