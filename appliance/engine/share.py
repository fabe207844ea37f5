"""Forecast what a step will hold, and say whether it fits the worker's share of memory."""

from collections.abc import Iterable
from dataclasses import dataclass

import mlx.core as mx

from appliance.engine.wire import MemoryLimits
from appliance.scheduler.room import KvShape

_DEVICE_SHARE = 0.9
# What a shape of reused buffers may keep beside what is in use, when nobody says.
_CACHE_BYTES = 2**28
_CACHE_SHARE = 8


@dataclass(frozen=True)
class TokenCosts:
    """Bytes that a token takes while it is computed: in a layer, there for each token before it,
    and while the next one is sampled."""

    layer_bytes: int
    score_bytes: int
    sampling_bytes: int


class MemoryShare:
    """The bytes a model may hold and what things cost it. Engine thread only.

    `costs` are those of a token while it is computed, apart from its keys and values.
    """

    def __init__(self, footprint_bytes: int, shape: KvShape, costs: TokenCosts) -> None:
        self.footprint_bytes = footprint_bytes
        self.limit_bytes: int | None = None
        self._shape = shape
        self._costs = costs
        self._lowered_bytes: int | None = None

    def set_limits(self, limits: MemoryLimits) -> None:
        """Keep to a new share; what it leaves open is as MLX finds the machine."""
        self.limit_bytes = limits.memory_bytes or _device_bytes()
        apply_limits(limits)
        cache = limits.cache_bytes
        if cache is None:
            cache = _CACHE_BYTES + self.footprint_bytes // _CACHE_SHARE
            if self.limit_bytes is not None:
                cache = min(cache, max(0, self.limit_bytes - self.footprint_bytes) // 2)
        mx.set_cache_limit(cache)

    def lower(self) -> None:
        """Take what is in use now as too much, since an allocation failed."""
        now = max(self.footprint_bytes, int(mx.get_active_memory() * _DEVICE_SHARE))
        self._lowered_bytes = min(now, self._lowered_bytes or now)

    def restore(self) -> None:
        """Forget what was too much: nobody is left who used it."""
        self._lowered_bytes = None

    def needed_bytes(
        self, rows: int, columns: int, cached: Iterable[int], chunk_tokens: int
    ) -> int:
        """Return what is held at the worst moment of a step.

        A batch of so many rows and columns, one layer of it twice while it is reshaped, prompt
        caches of `cached` tokens each, and either a step of the batch or a chunk of
        `chunk_tokens` that the longest of the caches ends with.
        """
        shape, costs = self._shape, self._costs
        lengths = list(cached)
        held = shape.batch_bytes(rows, columns) + shape.largest_layer_bytes(rows, columns)
        held += sum(shape.batch_bytes(1, length) for length in lengths)
        step = rows * (costs.layer_bytes + columns * costs.score_bytes + costs.sampling_bytes)
        longest = max(lengths, default=0)
        chunk = chunk_tokens * (costs.layer_bytes + longest * costs.score_bytes)
        return self.footprint_bytes + held + max(step, chunk)

    def batch_bytes(self, rows: int, columns: int) -> int:
        """Return the bytes of a batch of so many rows and columns."""
        return self._shape.batch_bytes(rows, columns)

    def fits(self, needed_bytes: int) -> bool:
        """Say whether so many bytes are within the share as it is now."""
        limits = [each for each in (self.limit_bytes, self._lowered_bytes) if each is not None]
        return all(needed_bytes <= limit for limit in limits)


def apply_limits(limits: MemoryLimits) -> None:
    """Tell MLX what this process may have; what is left open stays MLX's own."""
    if limits.memory_bytes is not None:
        mx.set_memory_limit(limits.memory_bytes)
    if mx.metal.is_available():
        mx.set_wired_limit(limits.wired_bytes or 0)


def _device_bytes() -> int | None:
    """Return what the device may give to one worker, None if MLX does not know."""
    known = mx.device_info(mx.default_device())
    size = known.get("max_recommended_working_set_size") or known.get("memory_size")
    return int(int(size) * _DEVICE_SHARE) if size else None
