"""Tell when nobody has used something for a while."""

import asyncio
import time
from collections.abc import Callable


class IdleTimer:
    """Calls `on_idle` once nobody used the thing for the limit, and again after each further one.

    Event loop only. `use` and `rest` cost next to nothing: the timer looks again when it is due.
    """

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._on_idle = on_idle
        self._limit: float | None = None
        self._rests_since: float | None = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle_seconds(self) -> float:
        """How long nobody has used it; 0 while somebody does."""
        return 0.0 if self._rests_since is None else time.monotonic() - self._rests_since

    def set_limit(self, seconds: float | None) -> None:
        """Wait so long from now on, None = for ever; what was idle already counts."""
        if seconds != self._limit:
            self.stop()
            self._limit = seconds
            self._watch()

    def use(self) -> None:
        """Somebody begins to use it."""
        self._rests_since = None

    def rest(self) -> None:
        """Nobody uses it any more, as of now."""
        self._rests_since = time.monotonic()
        self._watch()

    def stop(self) -> None:
        """Call nobody any more before the next change. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> None:
        if self._limit is not None and self._timer is None and self._rests_since is not None:
            self._look_in(self._limit - self.idle_seconds)

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._limit is None or self._rests_since is None:
            return
        if self.idle_seconds < self._limit:
            self._watch()
            return
        self._look_in(self._limit)
        self._on_idle()
