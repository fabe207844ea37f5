"""Decide that a worker is stuck: too long in one step, or silent."""

import asyncio
import time
from collections.abc import Callable

from appliance.engine.wire import Pulse

_LEAST_LOAD_SECONDS = 60.0
_SECOND_LOOK_SECONDS = 1.5
"""More than a worker lets pass between two pulses."""


class Watchdog:
    """Watches one worker; calls `on_stuck` once, with what to tell about it. Event loop only.

    A loaded worker is stuck when two pulses show the same step running for longer than
    `step_timeout` seconds, or when no frame came for that long. A worker that still loads may take
    its time; its silence may last a minute at least. `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        step_timeout: float,
        on_stuck: Callable[[str, float, int | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_stuck` gets a reason (what follows "the worker"), seconds, and the step if known."""
        self._step_timeout = step_timeout
        self._silence = max(step_timeout, _LEAST_LOAD_SECONDS)
        self._on_stuck = on_stuck
        self._clock = clock
        self._heard_at = clock()
        self._suspected_at: float | None = None
        self._long_step: int | None = None
        self._is_loaded = False
        self._timer: asyncio.TimerHandle | None = None

    def set_step_timeout(self, seconds: float) -> None:
        """Allow a step, and once loaded a silence, another time from now on."""
        self._step_timeout = seconds
        self._silence = seconds if self._is_loaded else max(seconds, _LEAST_LOAD_SECONDS)
        if self._timer is not None:
            self._look_in(self._silence)

    def start(self) -> None:
        """Begin to watch."""
        self.hear()
        self._look_in(self._silence)

    def stop(self) -> None:
        """Watch no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def hear(self) -> None:
        """Note that a frame came."""
        self._heard_at = self._clock()

    def loaded(self) -> None:
        """From now on steps count, and silence counts as a step."""
        self._is_loaded = True
        self._silence = self._step_timeout
        if self._timer is not None:
            self._look_in(self._silence)

    def pulse(self, pulse: Pulse) -> None:
        """Take the worker's own word on its step."""
        if not self._is_loaded or pulse.seconds_in_step <= self._step_timeout:
            self._long_step = None
        elif self._long_step != pulse.step:
            # A machine that was asleep may have made a step of a moment look long.
            self._long_step = pulse.step
        else:
            self._expire("was stuck in a step", pulse.seconds_in_step, pulse.step)

    def look(self) -> None:
        """Judge the silence. Called by the timer."""
        quiet = self._clock() - self._heard_at
        if quiet < self._silence:
            self._look_in(self._silence - quiet)
        elif self._suspected_at != self._heard_at:
            # This loop itself may have been held up: let it read what waits in the socket first.
            self._suspected_at = self._heard_at
            self._look_in(_SECOND_LOOK_SECONDS)
        else:
            self._expire("was silent", quiet, None)

    def _expire(self, reason: str, seconds: float, step: int | None) -> None:
        if self._timer is None:
            return
        self.stop()
        self._on_stuck(f"{reason} for {seconds:.1f} s", seconds, step)

    def _look_in(self, seconds: float) -> None:
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.look)
