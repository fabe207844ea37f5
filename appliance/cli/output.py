"""Write for people and scripts: exit codes, one-line errors, tables, JSON, colour on terminals."""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Literal, NamedTuple, TextIO

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


class Tinted(NamedTuple):
    """A cell of a table, in a colour."""

    text: str
    colour: Colour


Cell = str | Tinted


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


def complain(*messages: str, stream: TextIO | None = None, prefix: str = "vllm-mlx: ") -> None:
    """Write messages to `stream` (default stderr), each on one line whatever it contains."""
    stream = stream or sys.stderr
    for message in messages:
        stream.write(f"{prefix}{' '.join(message.split()).translate(_CONTROLS)}\n")
    stream.flush()


def say_json(value: object) -> None:
    """Write a value to stdout as JSON for people and programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def say_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Write aligned columns; columns that are empty in every row are left out."""
    for line in table_lines(headers, rows):
        say(line)


def table_lines(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return what `say_table` writes, line by line."""
    table = [[_plain(cell) for cell in row] for row in rows]
    shown = [index for index in range(len(headers)) if any(row[index] for row in table)]
    widths = [max(len(line[index]) for line in (headers, *table)) for index in shown]
    heading = (headers[index].ljust(width) for index, width in zip(shown, widths, strict=True))
    lines = [painted("  ".join(heading).rstrip(), "dim")]
    for cells, texts in zip(rows, table, strict=True):
        columns = zip(shown, widths, strict=True)
        padded = (_coloured(cells[i], texts[i]) + " " * (n - len(texts[i])) for i, n in columns)
        lines.append("  ".join(padded).rstrip())
    return lines


def _plain(cell: Cell) -> str:
    # On one line: what is drawn over must be as high as it was.
    return printable(" ".join((cell.text if isinstance(cell, Tinted) else cell).split()))


def _coloured(cell: Cell, text: str) -> str:
    return painted(text, cell.colour) if isinstance(cell, Tinted) else text


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


def readable_seconds(seconds: float) -> str:
    """Return a duration for people, in its two largest units: 42s, 3m 7s, 2d 4h."""
    left = round(seconds)
    parts: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        number, left = divmod(left, size)
        if number or parts or unit == "s":
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2])


def readable_moment(at: float | str) -> str:
    """Return a moment, in Unix seconds, in this machine's time; one that is text stays as it is."""
    if isinstance(at, str):
        return at
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
