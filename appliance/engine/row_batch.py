"""Decode one row with the model's own prompt caches, for models whose caches cannot be batched."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx import nn


class RowBatch:
    """A batch of one row, by the verbs of RingBatch; nothing is copied. Engine thread only."""

    def __init__(self, model: nn.Module) -> None:
        self.rows = 0
        self.columns = 0
        self.lengths: list[int | None] = []
        self._model = model
        self._caches: list[Any] = []

    def resize(
        self,
        order: Sequence[int | None],
        columns: int,
        *,
        coming: int = 0,
        is_tight: bool = False,
    ) -> None:
        """Note the size; the caches grow by themselves."""
        assert len(order) <= 1
        self.rows, self.columns = len(order), columns
        self.lengths = [None if index is None else self.lengths[index] for index in order]

    def clear(self) -> None:
        """Drop the row."""
        self.rows = self.columns = 0
        self.lengths, self._caches = [], []

    def join(self, row: int, caches: list[Any], index: int, length: int) -> None:
        """Take over prompt caches of one row."""
        assert row == index == 0
        self._caches = caches
        self.lengths = [length]

    def leave(self, row: int) -> None:
        """Empty the row."""
        self.lengths[row] = None
        self._caches = []

    def forward(self, tokens: mx.array) -> mx.array:
        """Add the row's token, (1,) int32, and return the next one's logits: (1, vocab). Lazy."""
        logits: mx.array = self._model(tokens[:, None], cache=self._caches)[:, -1]
        self.lengths = [None if length is None else length + 1 for length in self.lengths]
        return logits

    def arrays(self) -> list[Any]:
        """Return everything that the next step reads."""
        return [cache.state for cache in self._caches]
