"""Read sizes, shares, counts and durations as people write them: 24GiB, 80%, 200k, 1h30m."""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, WithJsonSchema

LARGEST_NUMBER = 2**63 - 1
LONGEST_SECONDS = 10**9

_SIZE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE_UNITS |= {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_COUNT_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_TIME_UNITS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60)}
_TIME_UNITS |= {"h": Decimal(3600), "d": Decimal(86400)}

_Amount = TypeVar("_Amount", int, Decimal)

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SCALED = re.compile(rf"{_NUMBER} *([A-Za-z]*)")
_PERCENT = re.compile(rf"{_NUMBER} *%")
_TIME_PART = re.compile(rf"{_NUMBER}(ms|s|m|h|d)")
_TIME = re.compile(rf"(?:{_TIME_PART.pattern})+")


@dataclass(frozen=True)
class Share:
    """A part of something whose size is known later; `fraction` is from 0 to 1."""

    fraction: float

    def of(self, whole: int) -> int:
        """Return this part of `whole`."""
        return int(self.fraction * whole)


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


def parse_auto_size(value: object) -> int | Literal["auto"]:
    """Return bytes, of which there is at least one, or auto; raises ValueError."""
    if value == "auto":
        return "auto"
    if isinstance(value, str) and _SCALED.fullmatch(value) is None:
        raise ValueError("should be auto, or a size such as 32MiB")
    return _positive(parse_size(value))


def parse_share(value: object) -> Share | int:
    """Return a share for a text such as 80%, else bytes; neither is zero; raises ValueError."""
    if isinstance(value, Share):
        return value
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        if isinstance(value, str) and _SCALED.fullmatch(value) is None:
            raise ValueError("should be a share such as 80%, or a size such as 32MiB")
        return _positive(parse_size(value))
    percent = _positive(Decimal(match[1]))
    if percent > 100:
        raise ValueError("should be at most 100%")
    return Share(float(percent / 100))


def parse_count(value: object) -> int:
    """Return a whole number for one, or for a text such as 200k or 20M; raises ValueError."""
    amount = _number(value)
    if amount is None:
        match = _SCALED.fullmatch(value) if isinstance(value, str) else None
        scale = _COUNT_UNITS.get(match[2]) if match else None
        if match is None or scale is None:
            raise ValueError("should be a number such as 500, 200k or 20M")
        amount = Decimal(match[1]) * scale
    if _within(amount) % 1:
        raise ValueError("should be a whole number")
    return int(amount)


def parse_duration(value: object) -> float:
    """Return seconds for a number or a text such as 90s or 1h30m; raises ValueError."""
    seconds = _number(value)
    if seconds is None:
        if not isinstance(value, str) or _TIME.fullmatch(value) is None:
            raise ValueError("should be a duration such as 30s or 5m")
        parts = _TIME_PART.findall(value)
        seconds = sum((Decimal(number) * _TIME_UNITS[unit] for number, unit in parts), Decimal())
    return float(_within(seconds, LONGEST_SECONDS))


def readable_bytes(number: float) -> str:
    """Return a number of bytes for people: 512 B, 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def _number(value: object) -> Decimal | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(value)
    return None


def _positive(amount: _Amount) -> _Amount:
    if not amount:
        raise ValueError("should be more than 0")
    return amount


def _within(amount: Decimal, largest: int = LARGEST_NUMBER) -> Decimal:
    # Infinity and NaN are numbers to YAML, and NaN cannot even be compared.
    if not amount.is_finite() or amount > largest:
        raise ValueError("is too large")
    if amount < 0:
        raise ValueError("should not be negative")
    return amount


def _schema(pattern: str, largest: int, examples: list[str], **least: int) -> WithJsonSchema:
    number = {"type": "number", "maximum": largest} | (least or {"minimum": 0})
    text = {"type": "string", "pattern": pattern, "examples": examples}
    return WithJsonSchema({"anyOf": [number, text]})


_SIZE_PATTERN = r"[0-9]+(\.[0-9]+)? *([kKmMgGtT]([iI]?[bB])?|[bB])?"

Bytes = Annotated[
    int,
    BeforeValidator(parse_size),
    _schema(f"^{_SIZE_PATTERN}$", LARGEST_NUMBER, ["32MiB", "24GiB"]),
]
AutoBytes = Annotated[
    int | Literal["auto"],
    BeforeValidator(parse_auto_size),
    _schema(f"^(auto|{_SIZE_PATTERN})$", LARGEST_NUMBER, ["auto", "24GiB"], exclusiveMinimum=0),
]
ShareOrBytes = Annotated[
    Share | int,
    BeforeValidator(parse_share),
    _schema(
        rf"^([0-9]+(\.[0-9]+)? *%|{_SIZE_PATTERN})$",
        LARGEST_NUMBER,
        ["80%", "24GiB"],
        exclusiveMinimum=0,
    ),
]
Count = Annotated[
    int,
    BeforeValidator(parse_count),
    _schema(r"^[0-9]+(\.[0-9]+)? *[kMG]?$", LARGEST_NUMBER, ["500", "200k", "20M"]),
]
Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    _schema(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$", LONGEST_SECONDS, ["30s", "5m", "1h30m"]),
]
