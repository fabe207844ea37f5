"""Keep the newest log events in memory, for those who read the log over HTTP."""

import asyncio
import threading
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec
from structlog.processors import format_exc_info
from structlog.typing import EventDict, WrappedLogger

LogEvent = dict[str, Any]
"""One event as the log has it, of JSON's types only; an exception is its traceback's text."""

_Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]


class LogTail:
    """A structlog processor that keeps the last `limit` events; it changes none.

    Any thread may log; readers are on an event loop and go by cursor, so there is nothing to
    unsubscribe: the cursor counts every event there ever was.
    """

    def __init__(self, limit: int = 1000) -> None:
        # Reentrant: the collector may end, in here, an object that logs.
        self._lock = threading.RLock()
        self._events: deque[LogEvent] = deque(maxlen=limit)
        self._cursor = 0
        self._waiters: set[_Waiter] = set()

    def __call__(self, logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
        """Keep a copy of `event`; called by structlog, before anything is rendered."""
        plain = format_exc_info(logger, name, dict(event))
        kept = msgspec.to_builtins(plain, str_keys=True, enc_hook=repr)
        with self._lock:
            self._events.append(kept)
            self._cursor += 1
            waiters, self._waiters = self._waiters, set()
        for loop, future in waiters:
            # A loop that is closed has nobody waiting any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, future)
        return event

    def newest(self, limit: int) -> tuple[list[LogEvent], int]:
        """Return the last `limit` events, oldest first, and the cursor behind them."""
        with self._lock:
            start = max(0, len(self._events) - max(0, limit))
            return list(islice(self._events, start, None)), self._cursor

    def since(self, cursor: int) -> tuple[list[LogEvent], int]:
        """Return what came after `cursor` and is still kept, and the cursor behind it."""
        with self._lock:
            return self.newest(self._cursor - cursor)

    async def wait(self, cursor: int) -> None:
        """Return when there is an event behind `cursor`; may be cancelled at any time."""
        loop = asyncio.get_running_loop()
        waiter = (loop, loop.create_future())
        with self._lock:
            if self._cursor > cursor:
                return
            self._waiters.add(waiter)
        try:
            await waiter[1]
        finally:
            with self._lock:
                self._waiters.discard(waiter)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
