"""Open generations, know the running ones, and write each one's canonical line and metrics."""

import dataclasses
import time
import uuid

import msgspec
import structlog

from appliance.chat.client import TextProcess
from appliance.chat.event import Finished, GenerationEvent, Usage
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
from appliance.pipeline.lexicon import Lexicon
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
        self.lexicon = Lexicon(registry, text)
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

    def open(
        self, request: ChatRequest, ids: RequestIds, lease: Lease | None = None, turn: int = 0
    ) -> Generation:
        """Return a new generation, not yet started. Pass it to `close` on every way out.

        `lease` is the copy to ask; None takes one by the name that the request gives. What is
        asked for again, as `turn` counts, has another seed.
        """
        seed = request.sampling.seed
        if turn and seed is not None:
            sampling = msgspec.structs.replace(request.sampling, seed=_next_seed(seed, turn))
            request = msgspec.structs.replace(request, sampling=sampling)
        generation = Generation(ids, request, self._pipe, lease)
        self._running[generation.id] = generation
        return generation

    def close(self, *generations: Generation, usage: Usage | None = None) -> None:
        """End the generations of one request, however it went, and record it once.

        The record is the first's, but for the error, which is any one's, and `usage`, which is
        that of all. Plain and idempotent.
        """
        first = generations[0]
        if self._running.pop(first.id, None) is None:
            return
        error = next((each.error for each in generations if each.error is not None), None)
        if any(each.finish_reason is None for each in generations):
            error = error or RequestCancelled(first.id)
        for generation in generations:
            self._running.pop(generation.id, None)
            generation.close()
            if generation.is_repetition:
                self._metrics.repetition_stops_total.labels(generation.model_name).inc()
        first.error = error
        usage = usage or first.usage
        self._record(first, usage)
        self._log(first, usage)

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
        if events and type(events[0]) is not Finished:
            self._note_text(generation)
        return events

    def cancel(self, request_id: str, *, key_name: str, is_admin: bool) -> Generation:
        """Cancel the request of a running generation, with every choice of it.

        Raises RequestNotFound, or Forbidden for another's key.
        """
        generation = self._running.get(request_id)
        if generation is None:
            raise RequestNotFound(request_id)
        if generation.ids.sender.key_name != key_name and not is_admin:
            raise Forbidden("Only the key that sent a request, or an admin, may cancel it.")
        for each in self.running():
            if each.ids.request == generation.ids.request:
                each.cancel()
        return generation

    def abort_all(self, error: ApplianceError) -> None:
        """End everything that runs with `error`."""
        for generation in tuple(self._running.values()):
            generation.abort(error)

    def note_refused(self, api: str, request_id: str, client_id: str | None, status: int) -> None:
        """Record a request that was refused before it could be opened; 503 is a shutdown's."""
        result = "rejected" if status < 500 else "shutdown" if status == 503 else "error"
        self._metrics.requests_total.labels(NO_MODEL, api, result).inc()
        log.info(
            "request_refused",
            request_id=request_id,
            client_request_id=client_id,
            api=api,
            status=status,
        )

    def _log(self, generation: Generation, usage: Usage) -> None:
        now, times = time.monotonic(), generation.times
        log.info(
            "request_finished",
            request_id=generation.id,
            client_request_id=generation.ids.client,
            api=generation.ids.api,
            model=generation.model_name or NO_MODEL,
            key=generation.ids.sender.key_name or None,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            queue_seconds=_since(times.arrived, times.started),
            ttft_seconds=_since(times.arrived, times.first_text),
            duration_seconds=round(now - times.arrived, 6),
            finish_reason=generation.finish_reason,
            is_repetition=generation.is_repetition,
            error=type(generation.error).__name__ if generation.error else None,
        )

    def _record(self, generation: Generation, usage: Usage) -> None:
        used = self.key_usage.setdefault(generation.ids.sender.key_name, KeyUsage())
        used.num_requests += 1
        used.prompt_tokens += usage.prompt_tokens
        used.completion_tokens += usage.completion_tokens
        metrics, times = self._metrics, generation.times
        model = generation.model_name
        metrics.requests_total.labels(
            model or NO_MODEL, generation.ids.api, _result(generation)
        ).inc()
        if model is None:
            return
        metrics.request_seconds.labels(model).observe(time.monotonic() - times.arrived)
        if times.started is not None:
            metrics.queue_seconds.labels(model).observe(times.started - times.arrived)
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


def _next_seed(seed: int, turn: int) -> int:
    """Return the seed of another choice; seeds are what 64 signed bits hold."""
    return (seed + turn + 2**63) % 2**64 - 2**63


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
