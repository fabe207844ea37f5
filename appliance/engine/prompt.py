"""Read prompts in chunks, each with caches of its own, until they can join the batch."""

from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import make_prompt_cache

from appliance.engine.wire import Submit
from appliance.scheduler.sequence import Sequence

# Short prompts overtake a long one; every so many chunks the one that came first has its turn.
_OLDEST_TURN = 4
_MOST_PADDING = 1.25
_LEAST_PADDED = 128
_PADDED_STEP = 256


def few_tokens(tokens: int) -> int:
    """Return the next of few sizes: 128, or a multiple of 256."""
    if tokens <= _LEAST_PADDED:
        return _LEAST_PADDED
    return -(-tokens // _PADDED_STEP) * _PADDED_STEP


@dataclass(slots=True)
class Prompt:
    """A sequence whose tokens are being read: all but the last one, which decodes with the batch.

    `ids` are the prompt and what was answered before a preemption. `caches` hold row `index`.
    """

    submit: Submit
    sequence: Sequence
    ids: list[int]
    num_read: int = 0
    caches: list[Any] = field(default_factory=list)
    index: int = 0

    @property
    def length(self) -> int:
        """The tokens that the caches hold when all is read."""
        return len(self.ids) - 1

    @property
    def remaining(self) -> int:
        """The tokens still to be read."""
        return self.length - self.num_read


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one call read: `tokens` in all, padding included, from `offset` on; `done` prompts are
    ready to join. `arrays` must be evaluated; `is_new_shape`: none of that shape was read before.
    Lazy."""

    tokens: int
    offset: int
    is_new_shape: bool
    done: list[Prompt]
    arrays: list[Any]


class PromptReader:
    """The prompts being read, in the order they came. Engine thread only.

    With `can_group` prompts of like length are read in one call, the shorter ones padded behind:
    causal attention never looks there. With `has_few_shapes` the ends of prompts and the groups
    are padded to few sizes as well; only where prompts can be grouped.
    """

    def __init__(
        self,
        model: nn.Module,
        most_together: int,
        *,
        can_group: bool,
        has_few_shapes: bool = False,
    ) -> None:
        self._model = model
        self._has_few_shapes = has_few_shapes
        self._shapes: set[tuple[int, int, int]] = set()
        self._most_together = most_together if can_group else 1
        self._prompts: dict[str, Prompt] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._prompts)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._prompts

    def add(self, submit: Submit, sequence: Sequence, ids: list[int]) -> None:
        """Begin to read a sequence's tokens."""
        self._prompts[submit.id] = Prompt(submit, sequence, ids)

    def remove(self, request_id: str) -> None:
        """Drop a prompt and what was read of it."""
        del self._prompts[request_id]

    def clear(self) -> None:
        """Drop every prompt."""
        self._prompts.clear()

    def prompts(self) -> list[Prompt]:
        """Return the prompts in the order they came."""
        return list(self._prompts.values())

    def next_prompt(self) -> Prompt | None:
        """Return the prompt whose turn it is: the one with least to read, at times the oldest."""
        if not self._prompts:
            return None
        if self._turn % _OLDEST_TURN == _OLDEST_TURN - 1:
            return next(iter(self._prompts.values()))
        return min(self._prompts.values(), key=lambda prompt: prompt.remaining)

    def read(self, prompt: Prompt, most_tokens: int) -> Chunk:
        """Read up to `most_tokens` of a prompt, or all of several short ones together. Lazy.

        Those that are done are no longer kept here.
        """
        self._turn += 1
        group = self._group(prompt, most_tokens)
        offset = prompt.num_read
        size = max(min(each.remaining, most_tokens) for each in group)
        num_rows = len(group)
        if self._has_few_shapes and size:
            group, num_rows, size = self._few_shapes(group, size, most_tokens)
        if not prompt.caches:
            caches = make_prompt_cache(self._model)
            for index, each in enumerate(group):
                each.caches, each.index = caches, index
        arrays: list[Any] = []
        if size:
            rows = [each.ids[offset : min(offset + size, each.length)] for each in group]
            rows += [[]] * (num_rows - len(rows))
            padded = [row + [0] * (size - len(row)) for row in rows]
            self._model(mx.array(padded, dtype=mx.int32), cache=prompt.caches)
            arrays = [cache.state for cache in prompt.caches]
        done = []
        for each in group:
            each.num_read = min(offset + size, each.length)
            if not each.remaining:
                del self._prompts[each.submit.id]
                done.append(each)
        shape = (num_rows, size, offset)
        is_new_shape = shape not in self._shapes
        self._shapes.add(shape)
        return Chunk(size * num_rows, offset, is_new_shape, done, arrays)

    def _few_shapes(
        self, group: list[Prompt], size: int, most_tokens: int
    ) -> tuple[list[Prompt], int, int]:
        """Return the group, perhaps a shorter one, and how many rows of how many tokens to read."""
        if size < most_tokens:
            size = min(self._padded(size), most_tokens)
        num_rows = 1 << (len(group) - 1).bit_length()
        if num_rows * size > most_tokens and len(group) < num_rows:
            num_rows //= 2
        return group[:num_rows], num_rows, size

    def _padded(self, tokens: int) -> int:
        return few_tokens(tokens) if self._has_few_shapes else tokens

    def _group(self, prompt: Prompt, most_tokens: int) -> list[Prompt]:
        group = [prompt]
        if prompt.num_read or not 0 < prompt.remaining <= most_tokens:
            return group
        size = prompt.remaining
        alike = [
            other
            for other in self._prompts.values()
            if other is not prompt
            and not other.num_read
            and size / _MOST_PADDING <= other.remaining <= size * _MOST_PADDING
        ]
        for other in alike[: self._most_together - 1]:
            longest = max(each.remaining for each in (*group, other))
            if (len(group) + 1) * self._padded(longest) > most_tokens:
                break
            group.append(other)
        return group
