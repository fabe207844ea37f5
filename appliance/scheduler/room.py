"""Forecast the memory that sequences need, and say who makes room when there is too little."""

from collections.abc import Iterable
from dataclasses import dataclass

from appliance.scheduler.sequence import Sequence

_COLUMN_STEP = 256


@dataclass(frozen=True, slots=True)
class KvLayer:
    """One layer's KV: bytes that a row holds in one column (one token).

    A sliding-window layer never holds more than `window` columns of a row.
    """

    column_bytes: int
    window: int | None = None

    def held_bytes(self, rows: int, columns: int) -> int:
        """Return the bytes of this layer for a batch of that capacity."""
        held = columns if self.window is None else min(columns, self.window)
        return rows * held * self.column_bytes


@dataclass(frozen=True, slots=True)
class KvShape:
    """What a model keeps for a batch: its KV layers, and `row_bytes` of recurrent state a row."""

    layers: tuple[KvLayer, ...]
    row_bytes: int = 0

    def batch_bytes(self, rows: int, columns: int) -> int:
        """Return the bytes of a batch of that capacity."""
        kv_bytes = sum(layer.held_bytes(rows, columns) for layer in self.layers)
        return rows * self.row_bytes + kv_bytes

    def largest_layer_bytes(self, rows: int, columns: int) -> int:
        """Return the bytes of the largest KV layer, which a resize holds twice for a moment."""
        return max((layer.held_bytes(rows, columns) for layer in self.layers), default=0)


def columns_for(length: int) -> int:
    """Return the capacity in columns to hold `length` tokens: one of few sizes, little waste.

    A multiple of 256; less than 256 above `length` up to 4096, less than an eighth beyond.
    """
    power = 1 << (length - 1).bit_length()
    return _round_up(length, max(_COLUMN_STEP, power // 16))


def rows_for(count: int, most: int) -> int:
    """Return the capacity in rows to hold `count` (at least 1) sequences: one of few sizes.

    1, 2, 3, 4, 6, 8, 12, 16, then four sizes for each doubling (at most a quarter above `count`);
    never over `most` unless `count` is.
    """
    power = 1 << (count - 1).bit_length()
    step = max(1, power // (8 if count > 16 else 4))
    return max(count, min(_round_up(count, step), most))


def preemption_order(running: Iterable[Sequence]) -> list[Sequence]:
    """Return whom to send back to wait, the first first.

    The lowest priority first; among equals those that have produced nothing, so that no client
    waits for more of what it has begun to read; among equals again the latest arrived. The last is
    the first arrived of the highest priority (of those the one with the least id), whatever it has
    produced: it is never preempted while another runs, so it always gets on.
    """
    longest_there = sorted(running, key=lambda s: (-s.priority, s.arrived, s.id))
    protected, others = longest_there[:1], longest_there[:0:-1]
    others.sort(key=lambda s: (s.priority, s.num_produced > 0))
    return others + protected


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
