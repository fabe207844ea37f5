"""Carry one request from its lease to its one end: lease, render, submit, read, release."""

import asyncio
import time
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from appliance.chat.client import TextProcess
from appliance.chat.event import Finished, GenerationEvent, TextDelta, Usage
from appliance.chat.request import ChatRequest, Sampling
from appliance.chat.sampling import resolve_sampling
from appliance.engine.interface import EngineStream
from appliance.engine.wire import Row, ScriptPrompt, Submit, TokenPrompt
from appliance.errors import (
    ApplianceError,
    ContextTooLong,
    DeadlineExceeded,
    InvalidRequest,
    RequestCancelled,
)
from appliance.manifest.spec import LimitsSpec
from appliance.parsing.stop import StopCutter
from appliance.registry.registry import Lease, Registry
from appliance.registry.resident import Loaded


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
    accepted: float | None = None
    first_text: float | None = None
    last_text: float | None = None


@dataclass(frozen=True, slots=True)
class RequestIds:
    """How a request is known: by our own id, by its client's, and by the key that sent it."""

    own: str
    client: str | None
    key_name: str


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
    """

    def __init__(self, ids: RequestIds, request: ChatRequest, pipe: Pipe) -> None:
        self.id = ids.own
        self.ids = ids
        self.request = request
        self.times = Timeline()
        self.stage = Stage.MODEL
        self.usage = Usage()
        self.finish_reason: str | None = None
        self.error: Exception | None = None
        self.model_name: str | None = None
        self._pipe = pipe
        self._cutter = StopCutter(request.stop)
        self._lease: Lease | None = None
        self._loaded: Loaded | None = None
        self._stream: EngineStream | None = None
        self._opening: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Take the lease, at once, and begin the rest.

        Raises ModelNotFound, QueueFull, or InvalidRequest for a field that cannot be honoured.
        """
        try:
            self._lease = self._take_lease()
        except ApplianceError as error:
            self.error = error
            raise
        seconds = self._pipe.limits.request_timeout
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(seconds, self.abort, DeadlineExceeded(seconds))
        self._opening = asyncio.create_task(self._open(self._lease))

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
        assert self._stream is not None
        try:
            rows = await self._stream.take()
        except ApplianceError as error:
            self.error = self.error or error
            raise
        return self._events(rows) if rows else []

    def wake(self) -> None:
        """Let a waiting `next_events` return now, with nothing if nothing came."""
        if self._stream is not None:
            self._stream.wake()

    def abort(self, error: ApplianceError) -> None:
        """End the request with `error` in whatever stage it is; its reader gets the error."""
        if self.stage is Stage.ENDED or self.error is not None or self.finish_reason is not None:
            return
        self.error = error
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        if self._stream is not None:
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
        if self._loaded is not None and self._stream is not None:
            self._loaded.engine.cancel(self.id)

    def _take_lease(self) -> Lease:
        registry, request = self._pipe.registry, self.request
        spec = registry.find(request.model).spec
        self.model_name = spec.name
        if request.unserved and not spec.is_scripted():
            name = request.unserved[0]
            raise InvalidRequest(f"'{name}' is not supported by this model.", param=name)
        cap = self._pipe.limits.max_output_tokens
        if request.max_tokens is not None and request.max_tokens > cap:
            raise InvalidRequest(
                f"max_tokens is {request.max_tokens}; this server allows at most {cap}.",
                param="max_tokens",
            )
        return registry.lease(request.model)

    async def _open(self, lease: Lease) -> None:
        loaded = await lease.ready()
        self.stage = Stage.TEXT
        prompt = await self._prompt(lease, loaded.context_tokens)
        loaded = await lease.ready()  # the worker may have been replaced meanwhile
        submit = Submit(
            model=lease.resident.spec.name,
            id=self.id,
            prompt=prompt,
            max_tokens=self._max_tokens(prompt, loaded.context_tokens),
            sampling=resolve_sampling(
                self.request.sampling,
                Sampling(**lease.resident.spec.sampling.model_dump()),
                loaded.generation_config,
            ),
            ignore_eos=self.request.ignore_eos,
        )
        self.stage = Stage.QUEUE
        self._loaded = loaded
        self._stream = loaded.engine.submit(submit)
        accepted = await self._stream.accepted()
        self.stage = Stage.PREFILL
        self.times.accepted = time.monotonic()
        self.usage = Usage(accepted.prompt_tokens, 0, accepted.cached_tokens)

    async def _prompt(self, lease: Lease, limit_tokens: int) -> TokenPrompt | ScriptPrompt:
        spec = lease.resident.spec
        if spec.is_scripted():
            return script_prompt(self.request)
        kwargs = spec.chat.template_kwargs | self.request.template_kwargs
        request = msgspec.structs.replace(self.request, template_kwargs=kwargs)
        ids = await self._pipe.text.render(spec.name, request, limit_tokens=limit_tokens)
        return TokenPrompt(ids)

    def _max_tokens(self, prompt: TokenPrompt | ScriptPrompt, context_tokens: int) -> int:
        """Return how many tokens the answer may have; raises ContextTooLong."""
        asked, cap = self.request.max_tokens, self._pipe.limits.max_output_tokens
        if isinstance(prompt, ScriptPrompt):
            return asked or cap
        room = context_tokens - len(prompt.ids)
        if room <= 0 or (asked is not None and asked > room):
            raise ContextTooLong(
                limit_tokens=context_tokens,
                prompt_tokens=len(prompt.ids),
                max_tokens=(asked or 0) if room > 0 else 0,
            )
        return asked or min(room, cap)

    def _events(self, rows: list[Row]) -> list[GenerationEvent]:
        self.stage = Stage.DECODE
        events: list[GenerationEvent] = []
        tokens = 0
        for row in rows:
            tokens += row.tokens
            text = self._cutter.push(row.text)
            if text:
                events.append(TextDelta(text))
            if self._cutter.matched is not None:
                self._count(tokens)
                events.append(self._finish("stop"))
                self._cancel_in_engine()
                return events
            if row.end is not None:
                self._count(tokens)
                events += self._ended(row)
                return events
        self._count(tokens)
        return events

    def _ended(self, row: Row) -> list[GenerationEvent]:
        assert row.end is not None
        self.usage = Usage(
            self.usage.prompt_tokens, row.end.completion_tokens, self.usage.cached_tokens
        )
        if row.end.reason not in ("stop", "length"):
            return []  # the stream's next `take` raises what it ended with
        held = self._cutter.flush()
        finished = self._finish("length" if row.end.reason == "length" else "stop")
        return [TextDelta(held), finished] if held else [finished]

    def _finish(self, reason: str) -> Finished:
        self.finish_reason = reason
        return Finished("length" if reason == "length" else "stop", self.usage)

    def _count(self, tokens: int) -> None:
        usage = self.usage
        self.usage = Usage(
            usage.prompt_tokens, usage.completion_tokens + tokens, usage.cached_tokens
        )


def script_prompt(request: ChatRequest) -> ScriptPrompt:
    """Return what a scripted engine answers to: the last user message and the words of all."""
    last = ""
    words = 0
    for message in request.messages:
        content = message.content or ""
        words += len(content.split())
        if message.role == "user":
            last = content
    return ScriptPrompt(text=last, num_tokens=words)
