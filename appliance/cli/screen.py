"""Keep a block of lines current on a terminal."""

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TextIO

_UP = "\x1b[{}A"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"
_CLIP, _WRAP = "\x1b[?7l", "\x1b[?7h"


def can_redraw(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Say whether `stream` is a terminal whose lines can be written over."""
    return stream.isatty() and environ.get("TERM") != "dumb"


class Block:
    """The last lines of a terminal: each drawing takes the place of the one before. One thread.

    Nothing else may be written between two drawings; what follows the last one comes below it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._height = 0

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, as many and as much of each as the terminal can."""
        room = max(1, shutil.get_terminal_size().lines - 1)
        shown = list(lines) if len(lines) <= room else [*lines[: room - 1], "…"]
        up = _UP.format(self._height) if self._height else ""
        body = "".join(f"{line}{_CLEAR_LINE}\n" for line in shown)
        # In one piece, so that Ctrl-C cannot leave the terminal clipping.
        self._stream.write(f"\r{up}{_CLIP}{body}{_WRAP}{_CLEAR_BELOW}")
        self._stream.flush()
        self._height = len(shown)
