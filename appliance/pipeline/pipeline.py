"""Open generations, know the running ones, and write each one's canonical line and metrics."""

import dataclasses
import time
import uuid

import structlog

from appliance.chat.client import TextProcess
from appliance.chat.event import GenerationEvent, TextDelta
from appliance.chat.request import ChatRequest
from appliance.errors import (
    ApplianceError,
    DeadlineExceeded,
    Draining,
    Forbidden,
    RequestCancelled,
    RequestError,
    RequestNotFound,
    Unavailable,
)
from appliance.manifest.spec import LimitsSpec
from appliance.pipeline.generation import Generation, Pipe
from appliance.pipeline.sender import RequestIds
from appliance.registry.lease import Lease
from appliance.registry.registry import Registry
from appliance.telemetry.metrics import NO_MODEL, Metrics

log = structlog.get_logger()


def new_request_id() -> str:
    """Return an id that nobody can guess."""
    return uuid.uuid4().hex


@dataclasses.dataclass
class KeyUsage:
    """What one key's requests came to since the start."""

    num_requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Pipeline:
    """Every running generation by id. Event loop only."""

    def __init__(
        self, registry: Registry, text: TextProcess, limits: LimitsSpec, metrics: Metrics
    ) -> None:
        self._pipe = Pipe(registry, text, limits)
        self._metrics = metrics
        self.key_usage: dict[str, KeyUsage] = {}
        self._running: dict[str, Generation] = {}

    @property
    def limits(self) -> LimitsSpec:
        """What begins now is held to."""
        return self._pipe.limits

    def set_limits(self, limits: LimitsSpec) -> None:
        """Hold what begins from now on to other limits."""
        self._pipe = dataclasses.replace(self._pipe, limits=limits)

    def running(self) -> tuple[Generation, ...]:
        """Return what runs, the oldest first."""
        return tuple(self._running.values())

    def open(self, request: ChatRequest, ids: RequestIds, lease: Lease | None = None) -> Generation:
        """Return a new generation, not yet started. Pass it to `close` on every way out.

        `lease` is the copy to ask; None takes one by the name that the request gives.
        """
        generation = Generation(ids, request, self._pipe, lease)
        self._running[generation.id] = generation
        return generation

    def close(self, generation: Generation) -> None:
        """End a generation, however it went, and record it once. Plain and idempotent."""
        if self._running.pop(generation.id, None) is None:
            return
        if generation.finish_reason is None and generation.error is None:
            generation.error = RequestCancelled(generation.id)
        generation.close()
        self._record(generation)
        self._log(generation)

    async def whole(self, generation: Generation) -> list[GenerationEvent]:
        """Return all events of an answer that is sent in one piece; raises what it ended with."""
        generation.is_whole = True
        events: list[GenerationEvent] = []
        while generation.finish_reason is None:
            was_renewed = generation.is_renewed
            came = await self.next_events(generation)
            if generation.is_renewed and not was_renewed:
                events.clear()
            events += came
        return events

    async def next_events(self, generation: Generation) -> list[GenerationEvent]:
        """Return the generation's next events, and note when its text came."""
        events = await generation.next_events()
        if events and type(events[0]) is TextDelta:
            self._note_text(generation)
        return events

    def cancel(self, request_id: str, *, key_name: str, is_admin: bool) -> Generation:
        """Cancel a running generation; raises RequestNotFound, or Forbidden for another's key."""
        generation = self._running.get(request_id)
        if generation is None:
            raise RequestNotFound(request_id)
        if generation.ids.sender.key_name != key_name and not is_admin:
            raise Forbidden("Only the key that sent a request, or an admin, may cancel it.")
        generation.cancel()
        return generation

    def abort_all(self, error: ApplianceError) -> None:
        """End everything that runs with `error`."""
        for generation in tuple(self._running.values()):
            generation.abort(error)

    def note_refused(self, request_id: str, client_id: str | None, status: int) -> None:
        """Record a request that was refused before it could be opened; 503 is a shutdown's."""
        result = "rejected" if status < 500 else "shutdown" if status == 503 else "error"
        self._metrics.requests_total.labels(NO_MODEL, "chat", result).inc()
        log.info(
            "request_refused", request_id=request_id, client_request_id=client_id, status=status
        )

    def _log(self, generation: Generation) -> None:
        now, times, usage = time.monotonic(), generation.times, generation.usage
        log.info(
            "request_finished",
            request_id=generation.id,
            client_request_id=generation.ids.client,
            api="chat",
            model=generation.model_name or NO_MODEL,
            key=generation.ids.sender.key_name or None,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            queue_seconds=_since(times.arrived, times.started),
            ttft_seconds=_since(times.arrived, times.first_text),
            duration_seconds=round(now - times.arrived, 6),
            finish_reason=generation.finish_reason,
            error=type(generation.error).__name__ if generation.error else None,
        )

    def _record(self, generation: Generation) -> None:
        used = self.key_usage.setdefault(generation.ids.sender.key_name, KeyUsage())
        used.num_requests += 1
        used.prompt_tokens += generation.usage.prompt_tokens
        used.completion_tokens += generation.usage.completion_tokens
        metrics, times = self._metrics, generation.times
        model = generation.model_name
        metrics.requests_total.labels(model or NO_MODEL, "chat", _result(generation)).inc()
        if model is None:
            return
        metrics.request_seconds.labels(model).observe(time.monotonic() - times.arrived)
        if times.started is not None:
            metrics.queue_seconds.labels(model).observe(times.started - times.arrived)
        usage = generation.usage
        metrics.prompt_tokens_total.labels(model).inc(usage.prompt_tokens)
        metrics.cached_tokens_total.labels(model).inc(usage.cached_tokens)
        metrics.completion_tokens_total.labels(model).inc(usage.completion_tokens)

    def _note_text(self, generation: Generation) -> None:
        model = generation.model_name
        now, times = time.monotonic(), generation.times
        if times.first_text is None:
            times.first_text = now
            self._metrics.time_to_first_token_seconds.labels(model).observe(now - times.arrived)
        elif times.last_text is not None:
            self._metrics.inter_token_seconds.labels(model).observe(now - times.last_text)
        times.last_text = now


def _since(start: float, end: float | None) -> float | None:
    return None if end is None else round(end - start, 6)


def _result(generation: Generation) -> str:
    match generation.error:
        case None:
            return "ok"
        case RequestCancelled():
            return "cancelled"
        case Draining():
            return "shutdown"
        case DeadlineExceeded() if not generation.has_own_deadline:
            return "error"
        case RequestError() | Unavailable():
            return "rejected"
        case _:
            return "error"
