"""Forecasts add up, capacities waste little, and the right sequence makes room."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.scheduler.room import KvLayer, KvShape, columns_for, preemption_order, rows_for
from appliance.scheduler.sequence import Sequence


def test_shape_counts_full_and_sliding_layers_and_recurrent_state() -> None:
    shape = KvShape((KvLayer(100), KvLayer(10, window=512)), row_bytes=7)

    assert shape.batch_bytes(2, 256) == 2 * (256 * 110 + 7)
    assert shape.batch_bytes(2, 1024) == 2 * (1024 * 100 + 512 * 10 + 7)
    assert shape.batch_bytes(0, 1024) == 0


def test_shape_names_the_layer_that_a_resize_doubles() -> None:
    shape = KvShape((KvLayer(100, window=256), KvLayer(50)))

    assert shape.largest_layer_bytes(3, 256) == 3 * 256 * 100
    assert shape.largest_layer_bytes(3, 1024) == 3 * 1024 * 50
    assert KvShape((), row_bytes=5).largest_layer_bytes(3, 1024) == 0


@pytest.mark.parametrize(
    ("length", "columns"),
    [(1, 256), (256, 256), (257, 512), (4096, 4096), (4097, 4608), (8193, 9216), (131073, 147456)],
)
def test_columns_come_in_steps(length: int, columns: int) -> None:
    assert columns_for(length) == columns


@given(st.integers(1, 2_000_000), st.integers(0, 5000))
def test_columns_hold_the_length_and_waste_little(length: int, more: int) -> None:
    columns = columns_for(length)

    assert length <= columns < length + max(256, length / 8)
    assert columns % 256 == 0
    assert columns_for(columns) == columns
    assert columns <= columns_for(length + more)


def test_columns_have_few_sizes() -> None:
    assert len({columns_for(length) for length in range(1, 131_073)}) == 16 + 5 * 8


def test_rows_come_in_steps() -> None:
    sizes = sorted({rows_for(count, 1000) for count in range(1, 81)})

    assert sizes == [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80]


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(0, 50))
def test_rows_hold_the_count_and_keep_to_the_most(count: int, most: int, more: int) -> None:
    rows = rows_for(count, most)

    assert count <= rows <= max(count, most)
    assert rows <= 1.25 * count or count < 16
    assert rows <= rows_for(count + more, most)


def _ids(*running: Sequence) -> list[str]:
    return [sequence.id for sequence in preemption_order(running)]


def test_preemption_takes_low_priority_then_late_arrival_first() -> None:
    low_old = Sequence("low old", 1, priority=0, arrived=1.0)
    low_new = Sequence("low new", 1, priority=0, arrived=9.0)
    high_old = Sequence("high old", 1, priority=2, arrived=5.0)
    high_new = Sequence("high new", 1, priority=2, arrived=8.0)

    order = _ids(high_old, low_old, high_new, low_new)

    assert order == ["low new", "low old", "high new", "high old"]


def test_preemption_takes_those_that_have_produced_nothing_first() -> None:
    first = Sequence("first", 1, arrived=1.0)
    silent_old = Sequence("silent old", 1, arrived=2.0)
    heard_old = Sequence("heard old", 1, arrived=3.0, num_produced=1)
    silent_new = Sequence("silent new", 1, arrived=4.0)
    heard_new = Sequence("heard new", 1, arrived=5.0, num_produced=9)
    low = Sequence("low", 1, priority=-1, arrived=0.0, num_produced=7)

    order = _ids(heard_new, first, silent_old, low, silent_new, heard_old)

    assert order == ["low", "silent new", "silent old", "heard new", "heard old", "first"]


def test_preemption_of_nobody_takes_nobody() -> None:
    assert _ids() == []


def test_preemption_does_not_depend_on_the_order_of_the_running() -> None:
    first, second = Sequence("a", 1), Sequence("b", 1)

    assert _ids(first, second) == _ids(second, first) == ["b", "a"]


_running = st.lists(
    st.builds(
        Sequence,
        id=st.uuids().map(str),
        prompt_tokens=st.just(1),
        priority=st.integers(0, 2),
        arrived=st.integers(0, 5).map(float),
        num_produced=st.integers(0, 2),
    ),
    min_size=1,
)


@given(_running)
def test_preemption_protects_one_and_leaves_nobody_out(running: list[Sequence]) -> None:
    *others, protected = preemption_order(running)

    assert {*others, protected} == set(running)
    assert protected is min(running, key=lambda s: (-s.priority, s.arrived, s.id))
    assert [s.priority for s in others] == sorted(s.priority for s in others)
    for one, other in pairwise(others):
        if one.priority == other.priority:
            assert (one.num_produced > 0, -one.arrived) <= (other.num_produced > 0, -other.arrived)
