"""Hold the keys and values of a batch in rings of columns, which all its rows write together.

Every row writes its next token into the same column of its layer's ring, so a row's tokens are the
columns just before the batch's own position, wherever the ring wraps, and a row that joins is
copied into its own row only. What a row may see follows from its length: nothing marks columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache

from appliance.scheduler.room import KvLayer, KvShape

Write = Literal["slice", "put"]
Runs = tuple[tuple[int | None, int], ...]


@dataclass(slots=True)
class Position:
    """Where the batch is, shared by all its rings and set anew before each model call.

    `column`: () int32, columns written so far; `lengths`: (rows,) int32, the tokens each row holds;
    `capacities`: () int32 for each size of a ring. A number would be a constant in a compiled step,
    and kernels made anew for each other one.
    `write` says how a column is written: `slice` needs `index`, the column as a number, and cannot
    be compiled; `put` takes it from the array. With `first`, the earliest column that any row still
    holds, only the columns from there on are read, where they do not wrap round a ring's end. With
    `is_twin` a call passes every token twice and the second of each is neither kept nor read.
    """

    column: mx.array
    lengths: mx.array
    capacities: dict[int, mx.array]
    write: Write = "slice"
    index: int = 0
    first: int | None = None
    is_twin: bool = False
    _places: dict[int, mx.array] = field(default_factory=dict)

    def move(self, column: mx.array, lengths: mx.array, capacities: dict[int, mx.array]) -> None:
        """Go to where the batch is now."""
        self.column, self.lengths, self.capacities = column, lengths, capacities
        self._places.clear()

    def place(self, capacity: int) -> mx.array:
        """Return the column in a ring of `capacity`, () int32; one array for all layers."""
        place = self._places.get(capacity)
        if place is None:
            place = self._places[capacity] = self.column % self.capacities[capacity]
        return place


class RingCache:
    """One attention layer's keys and values, (rows, heads, capacity, dim), by mlx-lm's interface.

    Takes one token a row and call. A ring with a `window` never holds more columns than that.
    """

    def __init__(self, position: Position, window: int | None) -> None:
        self.position = position
        self.window = window
        self.keys: mx.array | None = None
        self.values: mx.array | None = None

    @property
    def offset(self) -> mx.array:
        """The position of each row's next token, (rows,)."""
        return self.position.lengths

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Write this step's column and return the rings, or the part of them that is in use."""
        self.keys = self._write(self.keys, keys)
        self.values = self._write(self.values, values)
        start, stop = self._used(self.keys.shape[2])
        return self.keys[:, :, start:stop], self.values[:, :, start:stop]

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """Return what `update_and_fetch` returned last, for layers that share another one's."""
        assert self.keys is not None
        assert self.values is not None
        start, stop = self._used(self.keys.shape[2])
        return self.keys[:, :, start:stop], self.values[:, :, start:stop]

    def make_mask(
        self,
        N: int,  # noqa: N803 - mlx-lm's name
        return_array: bool = False,
        window_size: int | None = None,
    ) -> mx.array:
        """Return which of the columns that are read each row may see: (rows, 1, N, columns)."""
        assert self.keys is not None
        capacity = self.keys.shape[2]
        position = self.position
        start, stop = self._used(capacity)
        columns = mx.arange(start, stop, dtype=mx.int32)
        age = (position.column - columns) % position.capacities[capacity]
        mask = age[None] <= position.lengths[:, None]
        windows = [each for each in (self.window, window_size) if each is not None]
        if windows:
            mask = mask & (age < min(windows))[None]
        mask = mask[:, None, None]
        return mx.broadcast_to(mask, (*mask.shape[:2], N, stop - start)) if N > 1 else mask

    def empty(self) -> bool:
        """Say that there may be tokens here."""
        return False

    def _used(self, capacity: int) -> tuple[int, int]:
        position = self.position
        if position.first is None:
            return 0, capacity
        start = position.first % capacity
        stop = start + position.index + 1 - position.first
        return (start, stop) if stop <= capacity else (0, capacity)

    def _write(self, ring: mx.array | None, new: mx.array) -> mx.array:
        assert ring is not None
        position = self.position
        if position.is_twin:
            new = new[:, :, :1]
        capacity = ring.shape[2]
        if position.write == "slice":
            start = position.index % capacity
            ring[:, :, start : start + 1] = new
            return ring
        place = mx.broadcast_to(position.place(capacity), new.shape)
        return mx.put_along_axis(ring, place, new, axis=2)


@dataclass(frozen=True)
class RingLayout:
    """One attention layer's shape: heads, key and value width, dtype, and its window in tokens."""

    key_shape: tuple[int, int]
    value_shape: tuple[int, int]
    dtype: mx.Dtype
    window: int | None

    def make(self, position: Position) -> RingCache:
        """Return the layer's cache, empty."""
        return RingCache(position, self.window)

    def capacity(self, columns: int) -> int:
        """Return how many columns the layer's ring has in a batch of `columns`."""
        return columns if self.window is None else min(columns, self.window)

    def zeros(self, rows: int, columns: int) -> list[mx.array]:
        """Return empty rings."""
        capacity = self.capacity(columns)
        return [
            mx.zeros((rows, heads, capacity, width), self.dtype)
            for heads, width in (self.key_shape, self.value_shape)
        ]

    def row_of(self, cache: Any, row: int, length: int) -> list[mx.array]:  # noqa: ANN401
        """Return the last tokens of a prompt cache's row, oldest first: (1, heads, n, width)."""
        size = length if self.window is None else min(length, self.window)
        if size == 0:
            return self.zeros(1, 0)
        keys, values = _in_order(cache)
        # Prompts have padding and room to grow behind them; a window's ring has neither.
        stop = length if self.window is None else keys.shape[2]
        return [each[row : row + 1, :, stop - size : stop] for each in (keys, values)]

    def put(self, ring: mx.array, row: int, piece: mx.array, column: int) -> None:
        """Write `piece` into a row's columns just before `column`; the others stay. Lazy."""
        capacity, size = ring.shape[2], piece.shape[2]
        start = (column - size) % capacity
        size_before_end = min(size, capacity - start)
        ring[row : row + 1, :, start : start + size_before_end] = piece[:, :, :size_before_end]
        if size_before_end < size:
            ring[row : row + 1, :, : size - size_before_end] = piece[:, :, size_before_end:]

    def moved(self, ring: mx.array, columns: int, column: int, new_column: int) -> mx.array:
        """Return the ring for a batch of `columns` whose next column is `new_column`, from one
        where it is `column`."""
        return picked(
            ring, _moves(ring.shape[2], self.capacity(columns), column, new_column), axis=2
        )


@dataclass(frozen=True)
class StateLayout:
    """One recurrent layer's states: their shapes without the row, and dtypes."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[mx.Dtype, ...]

    def make(self, position: Position) -> ArraysCache:
        """Return the layer's cache, empty."""
        return ArraysCache(len(self.shapes))

    def zeros(self, rows: int, columns: int) -> list[mx.array]:
        """Return states of rows that have read nothing."""
        return [
            mx.zeros((rows, *shape), dtype)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]

    def row_of(self, cache: Any, row: int, length: int) -> list[mx.array]:  # noqa: ANN401
        """Return a prompt cache's states of one row."""
        if length == 0:
            return self.zeros(1, 0)
        return [state[row : row + 1] for state in cache.state[0]]

    def put(self, ring: mx.array, row: int, piece: mx.array, column: int) -> None:
        """Write a row's state. Lazy."""
        ring[row : row + 1] = piece

    def moved(self, ring: mx.array, columns: int, column: int, new_column: int) -> mx.array:
        """Return the states, which have no columns."""
        return ring


Layout = RingLayout | StateLayout


@lru_cache(maxsize=8)
def _moves(before: int, after: int, column: int, new_column: int) -> Runs:
    """Return which columns of a ring of `before` are where in one of `after`; see `moved`."""
    sources: list[int | None] = []
    for place in range(after):
        age = (new_column - 1 - place) % after
        sources.append((column - 1 - age) % before if age < before else None)
    return runs_of(sources)


def runs_of(sources: Sequence[int | None]) -> Runs:
    """Return the runs of neighbours among `sources`: where each begins, and its length."""
    runs: list[tuple[int | None, int]] = []
    for source in sources:
        first, size = runs[-1] if runs else (None, 0)
        follows = source is None if first is None else source == first + size
        if size and follows:
            runs[-1] = (first, size + 1)
        else:
            runs.append((source, 1))
    return tuple(runs)


def picked(array: mx.array, runs: Runs, axis: int) -> mx.array:
    """Return these runs of slices of `array` along `axis`, zeros for None. Lazy.

    For rings a plain copy is ten times as fast as a gather.
    """
    pieces = []
    for first, size in runs:
        if first is None:
            shape = [*array.shape[:axis], size, *array.shape[axis + 1 :]]
            pieces.append(mx.zeros(shape, array.dtype))
        else:
            pieces.append(array[(*[slice(None)] * axis, slice(first, first + size))])
    return mx.concatenate(pieces, axis=axis)


def _in_order(cache: KVCache | RotatingKVCache) -> tuple[mx.array, mx.array]:
    """Return a prompt cache's keys and values with the oldest token first."""
    if not isinstance(cache, RotatingKVCache):
        return cache.keys, cache.values  # with room to grow behind
    keys, values, offset, _, _, index = cache.state
    if index < min(offset, keys.shape[2]):
        return mx.roll(keys, -index, 2), mx.roll(values, -index, 2)
    return keys[:, :, :index], values[:, :, :index]


def leaves(caches: list[Any]) -> list[Any]:
    """Return the caches with every CacheList taken apart."""
    flat = []
    for cache in caches:
        flat += leaves(list(cache.caches)) if isinstance(cache, CacheList) else [cache]
    return flat


def read_layouts(caches: list[Any]) -> list[Layout] | None:
    """Return the layout of each leaf of prompt caches that hold a token; None for unknown kinds."""
    layouts: list[Layout] = []
    for cache in leaves(caches):
        if type(cache) is ArraysCache and all(state is not None for state in cache.state[0]):
            states = cache.state[0]
            layouts.append(
                StateLayout(
                    tuple(tuple(each.shape[1:]) for each in states),
                    tuple(each.dtype for each in states),
                )
            )
        elif type(cache) is KVCache or (type(cache) is RotatingKVCache and cache.keep == 0):
            keys, values = cache.state[:2]
            window = cache.max_size if type(cache) is RotatingKVCache else None
            key_shape, value_shape = ((each.shape[1], each.shape[3]) for each in (keys, values))
            layouts.append(RingLayout(key_shape, value_shape, keys.dtype, window))
        else:
            return None
    return layouts


def kv_shape(caches: list[Any]) -> KvShape:
    """Return what rows and columns cost in bytes, from prompt caches that hold a token.

    Four dimensions are keys or values, whatever the kind of cache; everything else is state.
    """
    layers = []
    row_bytes = 0
    for cache in leaves(caches):
        window = cache.max_size if isinstance(cache, RotatingKVCache) else None
        arrays = [each for _, each in tree_flatten(cache.state) if isinstance(each, mx.array)]
        if isinstance(cache, ArraysCache):
            row_bytes += sum(each.nbytes for each in arrays)
            continue
        columns = [each.nbytes // max(1, each.shape[2]) for each in arrays if each.ndim == 4]
        layers.append(KvLayer(sum(columns), window))
        row_bytes += sum(each.nbytes for each in arrays if each.ndim != 4)
    return KvShape(tuple(layers), row_bytes)


def rebuild(caches: list[Any], made: list[Any]) -> list[Any]:
    """Return `made`, one for each leaf, in the nesting of `caches`."""
    remaining = iter(made)

    def build(cache: Any) -> Any:  # noqa: ANN401
        if isinstance(cache, CacheList):
            return CacheList(*(build(each) for each in cache.caches))
        return next(remaining)

    return [build(cache) for cache in caches]
