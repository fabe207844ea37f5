"""Log how far long work has come, now and then."""

import time
from collections.abc import Callable

import structlog

ProgressSink = Callable[[str, str, int, int], None]
"""Called with a model's name, the phase of its work, and what is done of how much (0 = unknown)."""

_LINE_SECONDS = 5.0

log = structlog.get_logger()


class ProgressLog:
    """A ProgressSink that writes a line when a phase begins and every five seconds. One thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._phases: dict[str, str] = {}
        self._next: dict[str, float] = {}

    def __call__(self, model: str, phase: str, done: int, total: int) -> None:
        """Note where the work on `model` is."""
        now = self._clock()
        if self._phases.get(model) == phase and now < self._next[model]:
            return
        self._phases[model], self._next[model] = phase, now + _LINE_SECONDS
        log.info("model_progressed", model=model, step=phase, done=done, total=total or None)
