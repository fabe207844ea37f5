"""Send an answer as server-sent events, with heartbeats, and clean up on every way out.

The format is WHATWG's: each event is `data: …` and an empty line; a line that starts with a
colon is a comment, which every client ignores.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol, cast

import structlog
from litestar.types import Receive, Scope, Send

from appliance.chat.event import GenerationEvent, Usage
from appliance.errors import ApplianceError
from appliance.pipeline.choices import Choices

SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

_LAST_EVENT_SECONDS = 1.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """How long a stream may be silent, and how long its client may take nothing; seconds."""

    heartbeat: float
    write: float

    def patience(self, *, has_failed: bool) -> float:
        """Return how long one write may take."""
        return min(self.write, _LAST_EVENT_SECONDS) if has_failed else self.write

    def next_look(self, quiet: float, *, is_writing: bool) -> float:
        """Return when to look at the clock again, after `quiet` seconds without a byte."""
        if is_writing:
            return min(self.heartbeat, self.write, _LAST_EVENT_SECONDS)
        return self.heartbeat - quiet if quiet < self.heartbeat else self.heartbeat


class EventCodec(Protocol):
    """One dialect's grammar for one answer; every method returns whole events, ready to be sent.

    `opening` once, then `events`, then `ending`; `heartbeat` at any time before that, and `error`
    instead of whatever would come next.
    """

    def heartbeat(self) -> bytes:
        """Return what keeps a silent stream alive, also before `opening`."""

    def opening(self, usage: Usage) -> bytes:
        """Return what comes before the first event, once the prompt's tokens are counted."""

    def events(self, events: list[GenerationEvent], choice: int) -> bytes:
        """Return the wire form of some events of one choice; Finished ends the choice."""

    def ending(self, usage: Usage) -> bytes:
        """Return what ends the stream, after every choice; `usage` is the whole answer's."""

    def error(self, error: BaseException) -> bytes:
        """Return the error event that ends the stream."""


class SseResponse:
    """A raw ASGI response that streams one answer. Closing it is the edge's.

    A client that takes nothing for `times.write` seconds is cut off; once its answer has
    ended with an error it has one second for that last event.
    """

    def __init__(self, choices: Choices, codec: EventCodec, times: StreamTimes) -> None:
        self._choices = choices
        self._codec = codec
        self._times = times
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._sent_at = self._loop.time()
        self._is_writing = False
        self._is_cut = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the whole answer; errors after the first byte become the stream's last event."""
        self._task = asyncio.current_task()
        self._set_clock(self._times.next_look(0.0, is_writing=True))
        try:
            start = {"type": "http.response.start", "status": 200, "headers": SSE_HEADERS}
            await send(cast(Any, start))
            await self._send_events(send)
        except asyncio.CancelledError:
            if not self._is_cut:
                raise
            self._task.uncancel()  # type: ignore[union-attr]
            log.info("client_cut", request_id=self._choices.id)
        finally:
            self._clock.cancel()

    async def _send_events(self, send: Send) -> None:
        try:
            await self._wait_opened(send)
            await self._write(send, self._codec.opening(self._choices.usage))
            await self._pump(send)
        except ApplianceError as error:
            await self._write(send, self._codec.error(error), is_last=True)
        except Exception as error:
            self._choices.note_crash(error)
            log.exception("request_crashed", request_id=self._choices.id)
            await self._write(send, self._codec.error(error), is_last=True)
        else:
            await self._write(send, b"", is_last=True)

    async def _wait_opened(self, send: Send) -> None:
        while not await self._choices.opened(self._times.heartbeat):
            await self._write(send, self._codec.heartbeat())

    async def _pump(self, send: Send) -> None:
        choices, codec = self._choices, self._codec
        while True:
            choice, events = await choices.next_events()
            if events:
                data = codec.events(events, choice)
                if choices.is_over:
                    await self._write(send, data + codec.ending(choices.usage))
                    return
                if data:
                    await self._write(send, data)
            elif self._seconds_quiet() >= self._times.heartbeat:
                await self._write(send, codec.heartbeat())

    async def _write(self, send: Send, data: bytes, *, is_last: bool = False) -> None:
        self._is_writing, self._sent_at = True, self._loop.time()
        await send({"type": "http.response.body", "body": data, "more_body": not is_last})
        self._is_writing = False
        self._sent_at = self._loop.time()

    def _seconds_quiet(self) -> float:
        return self._loop.time() - self._sent_at

    def _set_clock(self, seconds: float) -> None:
        self._clock = self._loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        """Look at the clock: wake the sender for a heartbeat, or cut off a client that is stuck."""
        quiet = self._seconds_quiet()
        if self._is_writing:
            patience = self._times.patience(has_failed=self._choices.error is not None)
            if quiet >= patience and self._task is not None:
                self._is_cut = True
                self._task.cancel()
                return
        elif quiet >= self._times.heartbeat:
            self._choices.wake()
        self._set_clock(self._times.next_look(quiet, is_writing=self._is_writing))
