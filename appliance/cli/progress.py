"""Draw the progress of long work: one moving line on a terminal, a few plain lines elsewhere."""

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from appliance.cli.output import readable_seconds
from appliance.manifest.quantity import readable_bytes

_DRAW_SECONDS = 0.1
_LINE_SECONDS = 10.0
_BAR_CHARACTERS = 24


class ProgressLine:
    """Draws (phase, done, total) in bytes on a stream; total 0 = unknown. One thread only.

    A context manager: leaving it ends the moving line, so that what follows starts a new one.
    """

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._is_terminal = stream.isatty()
        self._phase = ""
        self._started = 0.0
        self._first = 0
        self._next = 0.0
        self._is_open = False

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        self._end_line()

    def draw(self, phase: str, done: int, total: int) -> None:
        """Show where the work is, if enough time has passed since the last drawing."""
        now = self._clock()
        if phase != self._phase:
            self._end_line()
            self._phase, self._started, self._first = phase, now, done
        elif now < self._next and done != total:
            return
        self._next = now + (_DRAW_SECONDS if self._is_terminal else _LINE_SECONDS)
        self._write(self._describe(done, total, now))
        if total and done >= total:
            self._end_line()

    def _describe(self, done: int, total: int, now: float) -> str:
        parts = [f"{self._phase:<9}"]
        if total:
            share = min(done / total, 1.0)
            if self._is_terminal:
                filled = "#" * round(share * _BAR_CHARACTERS)
                parts.append(f"[{filled:<{_BAR_CHARACTERS}}]")
            parts.append(f"{share:4.0%}  {readable_bytes(done)} of {readable_bytes(total)}")
        elif done:
            parts.append(readable_bytes(done))
        rate = (done - self._first) / (now - self._started) if now > self._started else 0.0
        if rate > 0:
            parts.append(f" {readable_bytes(rate)}/s")
            if total > done:
                parts.append(f" {readable_seconds((total - done) / rate)} left")
        return " ".join(parts).rstrip()

    def _write(self, text: str) -> None:
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns
            self._stream.write(f"\r\x1b[K{text[: columns - 1]}")
            self._is_open = True
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def _end_line(self) -> None:
        if self._is_open:
            self._stream.write("\n")
            self._stream.flush()
            self._is_open = False
