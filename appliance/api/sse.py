"""Send a generation as server-sent events, with heartbeats, and clean up on every way out.

The format is WHATWG's: each event is `data: …` and an empty line; a line that starts with a
colon is a comment, which every client ignores.
"""

import asyncio
from typing import Any, Protocol, cast

import structlog
from litestar.types import Receive, Scope, Send

from appliance.chat.event import Finished, GenerationEvent
from appliance.errors import ApplianceError
from appliance.pipeline.generation import Generation
from appliance.pipeline.pipeline import Pipeline

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

log = structlog.get_logger()


class EventCodec(Protocol):
    """One dialect's grammar; every method returns whole events, ready to be sent."""

    heartbeat: bytes

    def opening(self) -> bytes:
        """Return what comes before the first text."""

    def events(self, events: list[GenerationEvent]) -> bytes:
        """Return the wire form of some events; Finished brings the whole ending."""

    def error(self, error: BaseException) -> bytes:
        """Return the error event that ends the stream."""


class SseResponse:
    """A raw ASGI response. `opened` tells whether the engine already took the request."""

    def __init__(
        self, generation: Generation, codec: EventCodec, pipeline: Pipeline, heartbeat: float
    ) -> None:
        self._generation = generation
        self._codec = codec
        self._pipeline = pipeline
        self._heartbeat = heartbeat
        self._client_id: str | None = None
        self._sent_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the whole answer; errors after the first byte become the stream's last event."""
        self._client_id = cast(Any, scope)["state"]["client_request_id"]
        try:
            start = {"type": "http.response.start", "status": 200, "headers": _HEADERS}
            await send(cast(Any, start))
            await self._send_events(send)
        finally:
            self.on_close()

    def on_close(self) -> None:
        """End the generation, however the response ended. Plain and idempotent."""
        self._pipeline.close(self._generation, self._client_id)

    async def _send_events(self, send: Send) -> None:
        try:
            await self._wait_opened(send)
            await self._write(send, self._codec.opening())
            timer = _HeartbeatTimer(self)
            try:
                await self._pump(send)
            finally:
                timer.stop()
        except ApplianceError as error:
            await self._end(send, self._codec.error(error))
        except Exception as error:
            log.exception("request_crashed", request_id=self._generation.id)
            await self._end(send, self._codec.error(error))
        else:
            await self._end(send, b"")

    async def _wait_opened(self, send: Send) -> None:
        while not await self._generation.opened(self._heartbeat):
            await self._write(send, self._codec.heartbeat)

    async def _pump(self, send: Send) -> None:
        generation, codec = self._generation, self._codec
        while True:
            events = await generation.next_events()
            if not events:
                if self.seconds_quiet() >= self._heartbeat:
                    await self._write(send, codec.heartbeat)
                continue
            self._pipeline.note_text(generation)
            await self._write(send, codec.events(events))
            if type(events[-1]) is Finished:
                return

    def seconds_quiet(self) -> float:
        """Return the time since the last byte was handed to the socket."""
        return asyncio.get_running_loop().time() - self._sent_at

    def wake(self) -> None:
        """Let the sender look at the clock."""
        self._generation.wake()

    @property
    def heartbeat_seconds(self) -> float:
        """The longest silence."""
        return self._heartbeat

    async def _write(self, send: Send, data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})
        self._sent_at = asyncio.get_running_loop().time()

    async def _end(self, send: Send, data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": False})


class _HeartbeatTimer:
    """Wake a response whenever it has been quiet for its heartbeat; one timer, no task."""

    def __init__(self, response: SseResponse) -> None:
        self._response = response
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(response.heartbeat_seconds, self._tick)

    def _tick(self) -> None:
        response = self._response
        left = response.heartbeat_seconds - response.seconds_quiet()
        if left <= 0:
            response.wake()
            left = response.heartbeat_seconds
        self._handle = self._loop.call_later(left, self._tick)

    def stop(self) -> None:
        self._handle.cancel()
