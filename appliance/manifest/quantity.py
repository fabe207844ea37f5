"""Read sizes and durations as people write them: 24GiB, 500MB, 5m, 1h30m."""

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

LARGEST_NUMBER = 2**63 - 1
LONGEST_SECONDS = 10**9

_SIZE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE_UNITS |= {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TIME_UNITS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60)}
_TIME_UNITS |= {"h": Decimal(3600), "d": Decimal(86400)}

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SCALED = re.compile(rf"{_NUMBER} *([A-Za-z]*)")
_TIME_PART = re.compile(rf"{_NUMBER}(ms|s|m|h|d)")
_TIME = re.compile(rf"(?:{_TIME_PART.pattern})+")


def parse_size(value: object) -> int:
    """Return bytes for a number or a text such as 32MiB; raises ValueError."""
    amount = _number(value)
    if amount is None:
        match = _SCALED.fullmatch(value) if isinstance(value, str) else None
        scale = _SIZE_UNITS.get(match[2].upper()) if match else None
        if match is None or scale is None:
            raise ValueError("should be a size such as 32MiB")
        amount = Decimal(match[1]) * scale
    return round(_within(amount))


def parse_duration(value: object) -> float:
    """Return seconds for a number or a text such as 90s or 1h30m; raises ValueError."""
    seconds = _number(value)
    if seconds is None:
        if not isinstance(value, str) or _TIME.fullmatch(value) is None:
            raise ValueError("should be a duration such as 30s or 5m")
        parts = _TIME_PART.findall(value)
        seconds = sum((Decimal(number) * _TIME_UNITS[unit] for number, unit in parts), Decimal())
    return float(_within(seconds, LONGEST_SECONDS))


def _number(value: object) -> Decimal | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(value)
    return None


def _within(amount: Decimal, largest: int = LARGEST_NUMBER) -> Decimal:
    # Infinity and NaN are numbers to YAML, and NaN cannot even be compared.
    if not amount.is_finite() or amount > largest:
        raise ValueError("is too large")
    if amount < 0:
        raise ValueError("should not be negative")
    return amount


def _schema(pattern: str, largest: int, examples: list[str]) -> WithJsonSchema:
    number = {"type": "number", "minimum": 0, "maximum": largest}
    text = {"type": "string", "pattern": pattern, "examples": examples}
    return WithJsonSchema({"anyOf": [number, text]})


Bytes = Annotated[
    int,
    BeforeValidator(parse_size),
    _schema(
        r"^[0-9]+(\.[0-9]+)? *([kKmMgGtT]([iI]?[bB])?|[bB])?$", LARGEST_NUMBER, ["32MiB", "24GiB"]
    ),
]
Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    _schema(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$", LONGEST_SECONDS, ["30s", "5m", "1h30m"]),
]
