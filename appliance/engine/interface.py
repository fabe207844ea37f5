"""Say what the gateway may ask of an engine, wherever it runs, and how its rows are read."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from appliance.engine.wire import Accepted, Progress, Row, Step, Submit
from appliance.errors import ApplianceError, StepFailed

MAX_UNREAD_CHARACTERS = 4 * 2**20
# What a log-probability weighs against that.
_LOGPROB_CHARACTERS = 64


class EngineStream:
    """The rows of one request. Filled by its engine, read by one task; event loop only.

    `acceptance` is None until the engine took the request. `on_running` is told True when its wait
    for a place in the batch is over, and False when it lost the place and waits again.
    """

    __slots__ = (
        "_error",
        "_is_running",
        "_on_running",
        "_rows",
        "_unread",
        "_waiter",
        "acceptance",
    )

    def __init__(self, on_running: Callable[[bool], None] | None = None) -> None:
        self.acceptance: Accepted | None = None
        self._on_running = on_running
        self._is_running = False
        self._rows: list[Row] = []
        self._unread = 0
        self._error: ApplianceError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def accept(self, accepted: Accepted) -> None:
        """Note that the request is in the engine's scheduler."""
        self.acceptance = accepted
        self.wake()

    def note_places(self, balance: int) -> None:
        """Note how often a step gave the request a place, less how often it took it away.

        Merged steps do not tell the order; from where the request stood, the balance does.
        """
        was_running, self._is_running = self._is_running, self._is_running + balance > 0
        has_changed = self._is_running != was_running
        if has_changed and self._on_running is not None and self._error is None:
            self._on_running(self._is_running)

    def put(self, row: Row) -> None:
        """Add a row; a reader that lets too much pile up gets an error instead."""
        if self._error is not None:
            return
        self._rows.append(row)
        self._unread += len(row.text)
        self._unread += _LOGPROB_CHARACTERS * sum(1 + len(each.top) for each in row.logprobs)
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
        while self.acceptance is None:
            if self._error is not None:
                raise self._error
            await self._wait()
        return self.acceptance

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

    def submit(self, submit: Submit, stream: EngineStream | None = None) -> EngineStream:
        """Hand over a request; its acceptance, rows and errors come through the stream.

        Returns `stream`, or a new one if none is given. A stream whose engine went away by itself
        fails with WorkerDied, and with nothing else: such a request may be submitted again.
        """

    def cancel(self, request_id: str) -> None:
        """Stop a request within one engine step; unknown ids are ignored."""

    async def close(self) -> None:
        """End every request with EngineStopped and free the model. Idempotent."""
