"""Rings keep each token where its column is, and prompt caches are read as what they are."""

from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
)

from appliance.engine.ring import (
    Position,
    RingCache,
    RingLayout,
    StateLayout,
    kv_shape,
    leaves,
    picked,
    read_layouts,
    rebuild,
    runs_of,
)
from appliance.scheduler.room import KvLayer

pytestmark = pytest.mark.mlx

_sources = st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=30)


@given(_sources)
def test_runs_are_as_few_as_may_be_and_name_every_source(sources: list[int | None]) -> None:
    runs = runs_of(sources)

    named = [None if first is None else first + n for first, size in runs for n in range(size)]
    assert named == sources
    for (first, size), (following, _) in pairwise(runs):
        assert following != (None if first is None else first + size)


@settings(deadline=None)
@given(_sources, st.integers(0, 2))
def test_picked_takes_slices_as_numpy_does(sources: list[int | None], axis: int) -> None:
    array = np.random.default_rng(1).random((10, 10, 10), np.float32) + 1
    zeros = np.zeros_like(np.take(array, [0], axis))
    expected = [zeros if each is None else np.take(array, [each], axis) for each in sources]

    got = picked(mx.array(array), runs_of(sources), axis)

    assert np.array_equal(np.array(got), np.concatenate(expected, axis))


_windows = st.none() | st.integers(1, 20)


def _layout(window: int | None) -> RingLayout:
    return RingLayout((2, 3), (2, 3), mx.float32, window)


def _ring(held: dict[int, float], capacity: int) -> mx.array:
    """Return a ring with the token of each column, by its number, in its place; zeros elsewhere."""
    ring = np.zeros((1, 2, capacity, 3), np.float32)
    for column, token in held.items():
        ring[:, :, column % capacity] = token
    return mx.array(ring)


@settings(deadline=None)
@given(_windows, st.integers(1, 30), st.integers(0, 30), st.integers(0, 99))
def test_put_writes_tokens_just_before_the_column_and_nothing_else(
    window: int | None, columns: int, length: int, column: int
) -> None:
    layout = _layout(window)
    capacity = layout.capacity(columns)
    size = min(length, capacity)
    before = {n: -1.0 - n for n in range(capacity)}
    written = {(column - size + n) % capacity: n + 1.0 for n in range(size)}
    piece = mx.broadcast_to(mx.arange(1.0, size + 1)[:, None], (1, 2, size, 3))
    ring = mx.concatenate([_ring(before, capacity)] * 3)

    layout.put(ring, 1, piece, column)

    untouched = _ring(before, capacity)
    expected = [untouched, _ring(before | written, capacity), untouched]
    assert mx.array_equal(ring, mx.concatenate(expected)).item()


@settings(deadline=None)
@given(_windows, st.integers(1, 30), st.integers(1, 30), st.integers(0, 99), st.integers(0, 99))
def test_moved_keeps_the_newest_tokens_just_before_the_new_column(
    window: int | None, before: int, after: int, column: int, new_column: int
) -> None:
    layout = _layout(window)
    old, new = layout.capacity(before), layout.capacity(after)
    ages = range(old)
    ring = _ring({column - 1 - age: age + 1.0 for age in ages}, old)
    kept = {new_column - 1 - age: age + 1.0 for age in ages if age < new}

    moved = layout.moved(ring, after, column, new_column)

    assert mx.array_equal(moved, _ring(kept, new)).item()


_lengths = st.lists(st.integers(0, 12), min_size=1, max_size=3)


@settings(deadline=None)
@given(_lengths, st.integers(0, 40), st.integers(1, 3), st.none() | st.integers(1, 9))
def test_mask_shows_each_row_its_tokens_and_the_new_one(
    lengths: list[int], column: int, num_queries: int, window_size: int | None
) -> None:
    capacity = 13
    capacities = {capacity: mx.array(capacity)}
    ring = RingCache(Position(mx.array(column), mx.array(lengths), capacities), None)
    ring.keys = ring.values = mx.zeros((len(lengths), 1, capacity, 1))
    expected = np.zeros((len(lengths), 1, num_queries, capacity), bool)
    for row, length in enumerate(lengths):
        for age in range(min(length + 1, window_size or capacity)):
            expected[row, :, :, (column - age) % capacity] = True

    mask = ring.make_mask(num_queries, window_size=window_size)

    assert np.array_equal(np.array(mask), expected)


def _tokens(*tokens: int) -> mx.array:
    return mx.broadcast_to(mx.array(tokens, dtype=mx.float32)[:, None], (1, 1, len(tokens), 1))


def _values(piece: mx.array) -> list[float]:
    return [float(each) for each in np.array(piece)[0, 0, :, 0]]


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), max_size=5), st.integers(0, 12), st.none() | st.just(4))
def test_row_of_a_prompt_cache_has_its_last_tokens_in_order(
    chunks: list[int], num_steps: int, window: int | None
) -> None:
    prompt_cache = KVCache() if window is None else RotatingKVCache(window)
    length = 0
    for size in chunks + [1] * num_steps:
        new = _tokens(*range(length, length + size))
        prompt_cache.update_and_fetch(new, -new)
        length += size

    keys, values = RingLayout((1, 1), (1, 1), mx.float32, window).row_of(prompt_cache, 0, length)

    assert _values(keys) == list(range(length))[-(window or length or 1) :]
    assert _values(values) == [-each for each in _values(keys)]


def test_row_of_a_padded_group_ends_where_its_prompt_does() -> None:
    group = KVCache()
    rows = mx.concatenate([_tokens(1, 2, 3, 4), _tokens(5, 6, 0, 0)])
    group.update_and_fetch(rows, rows)

    keys, _ = RingLayout((1, 1), (1, 1), mx.float32, None).row_of(group, 1, 2)

    assert _values(keys) == [5, 6]


def _read_some(caches: list[Any]) -> list[Any]:
    """Let every leaf hold two tokens of two heads, or a state."""
    for leaf in leaves(caches):
        if isinstance(leaf, ArraysCache):
            leaf.state = ([mx.zeros((1, 3, 5)), mx.zeros((1, 7), mx.float16)], None, None)
        else:
            leaf.update_and_fetch(mx.zeros((1, 2, 2, 4)), mx.zeros((1, 2, 2, 6)))
    return caches


def test_layouts_are_read_from_every_leaf() -> None:
    caches = _read_some([CacheList(ArraysCache(2), KVCache()), RotatingKVCache(9)])

    layouts = read_layouts(caches)

    assert layouts == [
        StateLayout(((3, 5), (7,)), (mx.float32, mx.float16)),
        RingLayout((2, 4), (2, 6), mx.float32, None),
        RingLayout((2, 4), (2, 6), mx.float32, 9),
    ]


def test_layouts_of_unknown_caches_are_not_guessed() -> None:
    assert read_layouts(_read_some([KVCache(), ChunkedKVCache(8)])) is None
    assert read_layouts(_read_some([RotatingKVCache(9, keep=1)])) is None
    assert read_layouts([ArraysCache(1)]) is None


def test_shape_counts_keys_and_values_by_the_column_and_states_by_the_row() -> None:
    caches = _read_some([CacheList(ArraysCache(2), KVCache()), RotatingKVCache(9)])

    shape = kv_shape(caches)

    assert shape.layers == (KvLayer(80), KvLayer(80, window=9))
    assert shape.row_bytes == 15 * 4 + 7 * 2


def test_rebuilt_caches_have_the_nesting_of_the_others() -> None:
    caches = [KVCache(), CacheList(ArraysCache(2), CacheList(KVCache()), KVCache()), KVCache()]
    position = Position(mx.zeros((), mx.int32), mx.zeros((1,), mx.int32), {})
    made = [RingCache(position, None) for _ in leaves(caches)]

    rebuilt = rebuild(caches, made)

    assert leaves(rebuilt) == made
    assert [isinstance(each, CacheList) for each in rebuilt] == [False, True, False]
    assert len(rebuilt[1].caches) == 3
