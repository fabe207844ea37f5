"""Sizes and durations: what a person writes is what is meant."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.manifest.quantity import (
    LARGEST_NUMBER,
    LONGEST_SECONDS,
    Share,
    parse_auto_size,
    parse_count,
    parse_duration,
    parse_share,
    parse_size,
)

SIZE_UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "K": 2**10, "MiB": 2**20, "gib": 2**30}
TIME_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
PARSERS = [parse_size, parse_duration, parse_count, parse_share, parse_auto_size]


@given(st.integers(0, 2**32), st.sampled_from(sorted(SIZE_UNITS)), st.sampled_from(["", " "]))
def test_size_is_the_number_times_its_unit(number: int, unit: str, space: str) -> None:
    assert parse_size(f"{number}{space}{unit}") == number * SIZE_UNITS[unit]


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from(sorted(TIME_UNITS))), min_size=1))
def test_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    seconds = sum(number * TIME_UNITS[unit] for number, unit in parts)
    if seconds > LONGEST_SECONDS:
        return

    assert parse_duration("".join(f"{number}{unit}" for number, unit in parts)) == seconds


@given(st.integers(0, LARGEST_NUMBER))
def test_plain_number_means_itself(number: int) -> None:
    assert parse_size(number) == number


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("1.5h", 5400.0), ("1h30m", 5400.0), ("0s", 0.0)]
)
def test_duration_takes_fractions_and_several_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@given(st.integers(0, 10**9), st.sampled_from(["", "k", "M", "G"]))
def test_count_is_the_number_times_its_unit(number: int, unit: str) -> None:
    scale = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[unit]

    assert parse_count(f"{number}{unit}") == number * scale


@pytest.mark.parametrize("value", ["0.5", 1.5, "1.0001k", "20m", "5K"])
def test_count_refuses_parts_and_other_units(value: object) -> None:
    with pytest.raises(ValueError, match="should be a"):
        parse_count(value)


@given(st.integers(1, 100), st.integers(0, 2**50))
def test_share_is_so_many_hundredths(percent: int, whole: int) -> None:
    share = parse_share(f"{percent}%")

    assert isinstance(share, Share)
    assert abs(share.of(whole) - whole * percent / 100) <= 1


@pytest.mark.parametrize(("value", "size"), [("24GiB", 24 * 2**30), (7, 7), ("1 kB", 1000)])
def test_share_and_automatic_size_may_be_bytes(value: object, size: int) -> None:
    assert parse_share(value) == parse_auto_size(value) == size


@pytest.mark.parametrize("value", ["0%", 0, "0B", "100.1%", "-5%", "%", "80 percent"])
def test_share_is_of_something_and_of_no_more_than_all(value: object) -> None:
    with pytest.raises(ValueError, match="should"):
        parse_share(value)


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "value", [None, True, (), {}, "", " ", "x", "-1", "5 m s", "1e3", "٣", -1, -0.5, "1.2.3"]
)
def test_quantity_refuses_what_is_none(parse: Callable[[object], float], value: object) -> None:
    with pytest.raises(ValueError, match="should"):
        parse(value)


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("value", [math.inf, math.nan, 10**400, 1e300])
def test_quantity_refuses_what_no_machine_has(
    parse: Callable[[object], float], value: object
) -> None:
    with pytest.raises(ValueError, match="is too large"):
        parse(value)


@given(st.one_of(st.text(), st.from_regex(r"[0-9.]{1,30}[A-Za-z ]{0,4}"), st.floats()))
def test_quantity_gives_a_finite_number_or_a_value_error(value: object) -> None:
    for parse in PARSERS:
        try:
            number = parse(value)
        except ValueError as error:
            assert str(value) not in str(error) or len(str(value)) < 3
        else:
            number = number.fraction if isinstance(number, Share) else number
            assert number == "auto" or 0 <= number <= LARGEST_NUMBER
