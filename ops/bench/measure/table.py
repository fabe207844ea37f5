"""Print what was measured as a table, and keep it as JSON lines."""

import json
import math
import platform
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Results:
    """Rows of one run; each is also a line of `path`, with the part and the machine."""

    def __init__(self, part: str, facts: Row, path: Path | None) -> None:
        self._facts = {"part": part, **facts, "machine": platform.node()}
        self._path = path
        self._rows: list[Row] = []

    def add(self, **row: Any) -> None:
        """Keep a row: numbers, short texts, or lists of either."""
        self._rows.append(row)
        print(json.dumps(row), flush=True)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(self._facts | row) + "\n")

    def show(self) -> None:
        """Print all rows as one table for a document."""
        columns = list(dict.fromkeys(key for row in self._rows for key in row))
        print()
        for cells in (columns, ["---"] * len(columns)):
            print(_line(cells))
        for row in self._rows:
            print(_line(_cell(row.get(key, "")) for key in columns))
        print(flush=True)


def median(values: Iterable[float]) -> float:
    """Return the median, not a number if there are none."""
    found = list(values)
    return statistics.median(found) if found else float("nan")


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value below which a share of the values lies, not a number if there are none."""
    found = sorted(values)
    return found[min(len(found) - 1, int(share * len(found)))] if found else float("nan")


def ratio(above: float, below: float) -> float | None:
    """Return a ratio to three places; None where there is none."""
    is_known = math.isfinite(above) and math.isfinite(below) and below != 0
    return round(above / below, 3) if is_known else None


def milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_cell(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
