"""Write for people and scripts: exit codes, one-line errors, tables, JSON, colour on terminals."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Literal, TextIO

Colour = Literal["green", "yellow", "red", "dim"]

_CODES: dict[Colour, int] = {"green": 32, "yellow": 33, "red": 31, "dim": 2}
_CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class Exit(IntEnum):
    """What a command's exit code means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_CONVERGED = 3
    NOT_REACHABLE = 4
    INTERRUPTED = 130
    """Ctrl-C, as shells report it: 128 and the signal's number."""


class CommandFailed(Exception):
    """The command cannot go on: `lines` say why to a person, `code` says it to a script."""

    def __init__(self, *lines: str, code: Exit = Exit.FAILED) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines
        self.code = code


def say(text: str = "", *, end: str = "\n") -> None:
    """Write to stdout, at once."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def printable(text: str, stream: TextIO | None = None) -> str:
    """Return foreign text for `stream` (default stdout): a terminal gets no control characters."""
    return text.translate(_CONTROLS) if (stream or sys.stdout).isatty() else text


def complain(*messages: str, stream: TextIO | None = None) -> None:
    """Write messages to `stream` (default stderr), each on one line whatever it contains."""
    stream = stream or sys.stderr
    for message in messages:
        stream.write(f"vllm-mlx: {' '.join(message.split()).translate(_CONTROLS)}\n")
    stream.flush()


def say_json(value: object) -> None:
    """Write a value to stdout as JSON for people and programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def say_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write aligned columns; columns that are empty in every row are left out."""
    shown = [index for index in range(len(headers)) if any(row[index] for row in rows)]
    lines = [[printable(line[index]) for index in shown] for line in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        text = "  ".join(cells).rstrip()
        say(text if number else painted(text, "dim"))


def painted(
    text: str,
    colour: Colour,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Return `text` in colour if `stream` (default stdout) is a terminal that wants it.

    NO_COLOR is https://no-color.org: set to anything but nothing, it means no.
    """
    is_wanted = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    if not (is_wanted and (stream or sys.stdout).isatty()):
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def readable_bytes(number: float) -> str:
    """Return a number of bytes for people: 512 B, 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def readable_seconds(seconds: float) -> str:
    """Return a duration for people, in its two largest units: 42s, 3m 7s, 2d 4h."""
    left = round(seconds)
    parts: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        number, left = divmod(left, size)
        if number or parts or unit == "s":
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2])
