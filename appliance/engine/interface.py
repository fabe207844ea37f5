"""Say what the gateway may ask of an engine, wherever it runs, and how its rows are read."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from appliance.engine.wire import Accepted, Progress, Row, Step, Submit
from appliance.errors import ApplianceError, StepFailed

MAX_UNREAD_CHARACTERS = 4 * 2**20


class EngineStream:
    """The rows of one request. Filled by its engine, read by one task; event loop only."""

    __slots__ = ("_accepted", "_error", "_rows", "_unread", "_waiter")

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._unread = 0
        self._accepted: Accepted | None = None
        self._error: ApplianceError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def accept(self, accepted: Accepted) -> None:
        """Note that the request is in the engine's scheduler."""
        self._accepted = accepted
        self.wake()

    def put(self, row: Row) -> None:
        """Add a row; a reader that lets too much pile up gets an error instead."""
        if self._error is not None:
            return
        self._rows.append(row)
        self._unread += len(row.text)
        if self._unread > MAX_UNREAD_CHARACTERS:
            self.fail(StepFailed("The client reads too slowly; the request was stopped."))
        self.wake()

    def fail(self, error: ApplianceError) -> None:
        """End the stream with `error`, after the rows that came before it. The first one stays."""
        if self._error is None:
            self._error = error
        self.wake()

    @property
    def has_failed(self) -> bool:
        """Say whether the stream has ended with an error."""
        return self._error is not None

    def wake(self) -> None:
        """Let a waiting reader return now, with nothing if nothing came."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def accepted(self) -> Accepted:
        """Wait until the engine took the request; raises what it was refused with."""
        while self._accepted is None:
            if self._error is not None:
                raise self._error
            await self._wait()
        return self._accepted

    async def take(self) -> list[Row]:
        """Return the rows that came since the last call, waiting for one.

        Returns an empty list when woken without rows; raises the error the request ended with.
        """
        if not self._rows:
            if self._error is None:
                await self._wait()
            if not self._rows and self._error is not None:
                raise self._error
        rows, self._rows, self._unread = self._rows, [], 0
        return rows

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter


@dataclass(frozen=True, slots=True)
class EngineEvents:
    """What an engine reports beside rows; called on the event loop and must not block."""

    on_step: Callable[[Step], None]
    on_progress: Callable[[Progress], None]
    on_lost: Callable[[ApplianceError], None]


class Engine(Protocol):
    """One loaded model. Every method is for the event loop; none but `close` waits."""

    @property
    def pid(self) -> int | None:
        """The process the model lives in; None for this one."""

    def submit(self, submit: Submit) -> EngineStream:
        """Hand over a request; its acceptance, rows and errors come through the stream."""

    def cancel(self, request_id: str) -> None:
        """Stop a request within one engine step; unknown ids are ignored."""

    async def close(self) -> None:
        """End every request with EngineStopped and free the model. Idempotent."""
