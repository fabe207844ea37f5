"""Decode a batch of rows in one model call, over rings that only ever copy the row that joins."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
from mlx import nn

from appliance.engine.ring import (
    Layout,
    Position,
    RingLayout,
    leaves,
    picked,
    rebuild,
    runs_of,
)

# A layer this large is handed to the device by itself when a batch is resized.
_LARGE_BYTES = 2**24
# Steps of one shape before it is worth compiling: the first shape of a way takes as long as many
# of them, since kernels are made, and each further one as long as a few.
_PATIENCE = 16
_PATIENCE_AGAIN = 8

Arrays = list[list[mx.array]]
Forward = Callable[
    [mx.array, mx.array, mx.array, list[mx.array], Arrays],
    tuple[mx.array, mx.array, mx.array, Arrays],
]


class Way(NamedTuple):
    """One way of running a decode step; all compute the same, at different speeds.

    `is_compiled` traces the step once for each shape, and is not windowed. `is_twin` passes
    each token twice, since CUDA's fused attention takes a mask only for more than one query.
    `is_windowed` reads only columns in use, and moves the rings back when these wrap.
    """

    is_compiled: bool = False
    is_windowed: bool = False
    is_twin: bool = False

    def eager(self) -> "Way":
        """Return the way that stands in until a step is compiled."""
        return Way(is_windowed=not self.is_twin, is_twin=self.is_twin)


class RingBatch:
    """The rows that decode together, and their rings. Engine thread only.

    `lengths` are the tokens each row holds, None for an empty row. After a call that raised only
    `clear` may follow.
    """

    def __init__(
        self,
        model: nn.Module,
        prompt_caches: list[Any],
        layouts: list[Layout],
        choose: Callable[[int], Way],
        patience: int = _PATIENCE,
    ) -> None:
        self.rows = 0
        self.columns = 0
        self.lengths: list[int | None] = []
        self._model = model
        self._layouts = layouts
        self._choose = choose
        self._patience = patience
        self._num_steps = Counter[tuple[int, int]]()
        self._used: set[int] = set()
        zero = mx.zeros((), mx.int32)
        self._position = Position(zero, mx.zeros((0,), mx.int32), {})
        self._capacities: dict[int, mx.array] = {}
        made = [layout.make(self._position) for layout in layouts]
        self._caches = rebuild(prompt_caches, made)
        self._leaves = leaves(self._caches)
        self._state: Arrays = []
        self._column = 0
        self._column_array = zero
        self._length_array = mx.zeros((0,), mx.int32)
        self._forwards: dict[Way, Forward] = {}

    def resize(
        self,
        order: Sequence[int | None],
        columns: int,
        *,
        coming: int = 0,
        is_tight: bool = False,
    ) -> None:
        """Make the rows those of `order` (None = an empty one), in rings of `columns`.

        `coming` are the tokens of a longer row that will join, whose columns are then in one piece.
        Large layers are queued one at a time; where memory `is_tight` each is waited for, so that
        only one is held twice. Lazy otherwise.
        """
        kept = (self.lengths[index] or 0 for index in order if index is not None)
        new_column = max(coming, *kept, 0)
        is_same = list(order) == list(range(self.rows))
        is_fresh = all(index is None for index in order)
        runs = runs_of(order)
        state, self._state = self._state, []
        for number, layout in enumerate(self._layouts):
            if is_fresh:
                arrays = layout.zeros(len(order), columns)
            else:
                arrays = state[number]
                state[number] = []
                if not is_same:
                    arrays = [picked(each, runs, axis=0) for each in arrays]
                arrays = [layout.moved(each, columns, self._column, new_column) for each in arrays]
            if is_tight:
                mx.eval(arrays)
            elif sum(each.nbytes for each in arrays) > _LARGE_BYTES:
                mx.async_eval(arrays)  # type: ignore[no-untyped-call]
            self._state.append(arrays)
        self._used = {row for row, index in enumerate(order) if index is not None}
        self.lengths = [None if index is None else self.lengths[index] for index in order]
        self._length_array = mx.array([each or 0 for each in self.lengths], dtype=mx.int32)
        self._column, self._column_array = new_column, mx.array(new_column, dtype=mx.int32)
        self.rows, self.columns = len(order), columns
        rings = [each for each in self._layouts if isinstance(each, RingLayout)]
        capacities = sorted({ring.capacity(columns) for ring in rings})
        self._capacities = {each: mx.array(each, dtype=mx.int32) for each in capacities}

    def clear(self) -> None:
        """Drop every row, and what a call that raised left in the caches."""
        self._drain()
        self._state, self.lengths = [], []
        self.rows = self.columns = 0
        self._column, self._column_array = 0, mx.zeros((), mx.int32)

    def join(self, row: int, caches: list[Any], index: int, length: int) -> None:
        """Copy the `length` tokens in row `index` of prompt caches into an empty row. Lazy."""
        if all(each is None for each in self.lengths):
            self._column, self._column_array = length, mx.array(length, dtype=mx.int32)
        for layout, arrays, cache in zip(self._layouts, self._state, leaves(caches), strict=True):
            for array, piece in zip(arrays, layout.row_of(cache, index, length), strict=True):
                if row in self._used:
                    # What a row may not see is still multiplied, by zero: NaN would spread.
                    array[row : row + 1] = mx.zeros((), array.dtype)
                layout.put(array, row, piece, self._column)
        self._used.add(row)
        self.lengths[row] = length
        self._length_array[row] = length

    def leave(self, row: int) -> None:
        """Empty a row."""
        self.lengths[row] = None
        self._length_array[row] = 0

    def forward(self, tokens: mx.array) -> mx.array:
        """Add each row's token, (rows,) int32, and return the logits of the next: (rows, vocab).

        Lazy. Empty rows take part with what they hold; their logits mean nothing.
        """
        way = self.way
        self._num_steps[self.rows, self.columns] += 1
        longest = max((length for length in self.lengths if length is not None), default=0)
        if way.is_windowed and self._column % self.columns < longest:
            self.resize(range(self.rows), self.columns)
        self._position.index = self._column
        self._position.first = self._column - longest if way.is_windowed else None
        logits, self._length_array, self._column_array, self._state = self._forward(way)(
            tokens[:, None],
            self._length_array,
            self._column_array,
            list(self._capacities.values()),
            self._state,
        )
        self._column += 1
        self.lengths = [None if length is None else length + 1 for length in self.lengths]
        return logits

    def arrays(self) -> list[Any]:
        """Return everything that the next step reads, to be evaluated with the logits."""
        return [self._length_array, self._column_array, self._state]

    @property
    def way(self) -> Way:
        """How the next step runs: a shape is compiled only once it has proved to last."""
        way = self._choose(self.rows)
        if not way.is_compiled:
            return way
        patience = self._patience
        if way in self._forwards:
            patience = min(patience, _PATIENCE_AGAIN)
        is_worth_it = self._num_steps[self.rows, self.columns] >= patience
        return way if is_worth_it else way.eager()

    def _forward(self, way: Way) -> Forward:
        known = self._forwards.get(way)
        if known is None:
            eager = self._make_forward(way)
            known = self._forwards[way] = mx.compile(eager) if way.is_compiled else eager
        return known

    def _make_forward(self, way: Way) -> Forward:
        def forward(
            tokens: mx.array,
            lengths: mx.array,
            column: mx.array,
            capacities: list[mx.array],
            state: Arrays,
        ) -> tuple[mx.array, mx.array, mx.array, Arrays]:
            position = self._position
            position.move(column, lengths, dict(zip(self._capacities, capacities, strict=True)))
            position.write = "put" if way.is_compiled else "slice"
            position.is_twin = way.is_twin
            self._fill(state)
            if way.is_twin:
                tokens = mx.broadcast_to(tokens, (tokens.shape[0], 2))
            logits = self._model(tokens, cache=self._caches)[:, 0]
            return logits, lengths + 1, column + 1, self._drain()

        return forward

    def _fill(self, state: Arrays) -> None:
        for layout, leaf, arrays in zip(self._layouts, self._leaves, state, strict=True):
            if isinstance(layout, RingLayout):
                leaf.keys, leaf.values = arrays
            else:
                leaf.state = (list(arrays), None, None)

    def _drain(self) -> Arrays:
        """Take the arrays out of the caches, so that the next step can write into them."""
        state: Arrays = []
        for layout, leaf in zip(self._layouts, self._leaves, strict=True):
            if isinstance(layout, RingLayout):
                state.append([leaf.keys, leaf.values])
                leaf.keys = leaf.values = None
            else:
                state.append(list(leaf.state[0]))
                leaf.state = ([None] * len(layout.shapes), None, None)
        return state
