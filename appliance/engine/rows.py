"""Keep the sequences that decode in the rows of a batch, and step them all at once."""

from collections.abc import Callable
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx

from appliance.constraints.guide import Guide
from appliance.engine.prompt import Prompt
from appliance.engine.sampling import BatchSampler, Sampled
from appliance.engine.wire import Submit
from appliance.scheduler.sequence import Sequence

_YOUNG_TOKENS = 8


class Batch(Protocol):
    """Rows that decode together; RingBatch's docstrings say what each verb does."""

    rows: int
    columns: int
    lengths: list[int | None]

    def resize(  # noqa: D102
        self, order: Ordered[int | None], columns: int, *, coming: int, is_tight: bool
    ) -> None: ...
    def clear(self) -> None: ...  # noqa: D102
    def join(self, row: int, caches: list[Any], index: int, length: int) -> None: ...  # noqa: D102
    def leave(self, row: int) -> None: ...  # noqa: D102
    def forward(self, tokens: mx.array) -> mx.array: ...  # noqa: D102
    def arrays(self) -> list[Any]: ...  # noqa: D102


@dataclass(slots=True, eq=False)
class Running:
    """A sequence that decodes: `num_asked` tokens were asked of the device, `num_landed` came.

    Both count the `num_before` that were made before a preemption. With a `guide` it has to be
    said before every step what may come next.
    """

    submit: Submit
    sequence: Sequence
    stop_ids: frozenset[int]
    num_before: int
    guide: Guide | None = None
    # What the guide said of the token that is about to come, if it was told already.
    foretold: bool | None = None
    num_asked: int = 0
    num_landed: int = 0
    is_gone: bool = False

    def __post_init__(self) -> None:
        self.num_asked = self.num_landed = self.num_before

    def take(self, token: int) -> bool:
        """Note a token that came; say whether it ends the answer."""
        self.num_landed += 1
        if self.guide is None:
            return token in self.stop_ids
        is_end = self.guide.take(token) if self.foretold is None else self.foretold
        self.foretold = None
        return is_end

    def foretell(self, token: int) -> None:
        """Tell the guide of a token before it is taken; in any thread that nobody runs beside."""
        if self.guide is not None and not self.is_gone:
            self.foretold = self.guide.take(token)


@dataclass(frozen=True, slots=True)
class Flight:
    """A decode step on the device: who was in which row, and what it samples.

    `is_steady` says that the batch was as at the step before.
    """

    rows: list[Running | None]
    sampled: Sampled
    is_steady: bool


class Rows:
    """The batch, its sampler and who is in which row. Engine thread only."""

    def __init__(self, batch: Batch, sampler: BatchSampler) -> None:
        self._batch = batch
        self._sampler = sampler
        self._rows: list[Running | None] = []
        self._tokens = mx.zeros((0,), mx.int32)
        self._is_steady = False
        self._num_steps = 0

    def __len__(self) -> int:
        """Return the number of sequences; the batch may have empty rows beside them."""
        return sum(running is not None for running in self._rows)

    @property
    def size(self) -> tuple[int, int]:
        """The batch's rows and columns, empty ones included."""
        return self._batch.rows, self._batch.columns

    @property
    def longest(self) -> int:
        """The tokens of the longest row."""
        return max((length for length in self._batch.lengths if length is not None), default=0)

    @property
    def is_steady(self) -> bool:
        """Say whether nobody joined since the last step, and the batch is as large as then."""
        return self._is_steady

    @property
    def is_settled(self) -> bool:
        """Say whether the last step was not the first of a batch of this size."""
        return self._num_steps > 1

    @property
    def are_young(self) -> bool:
        """Say whether all sequences have just begun, so that nobody yet reads at their pace."""
        return all(each.num_landed - each.num_before < _YOUNG_TOKENS for each in self.running())

    @property
    def are_guided(self) -> bool:
        """Say whether it depends on tokens that may still be in flight what some row has next."""
        guides = [each.guide for each in self.running()]
        return any(guide is not None and not guide.can_wait for guide in guides)

    def places(self) -> list[Running | None]:
        """Return every row of the batch, empty ones included."""
        return list(self._rows)

    def running(self) -> list[Running]:
        """Return the sequences in the order of their rows."""
        return [running for running in self._rows if running is not None]

    def has_place(self, length: int) -> bool:
        """Say whether a sequence of `length` tokens can join without a reshape."""
        return None in self._rows and length < self._batch.columns

    def join(self, running: Running, prompt: Prompt) -> None:
        """Put a sequence whose tokens were read into an empty row. Lazy."""
        row = self._rows.index(None)
        self._rows[row] = running
        self._batch.join(row, prompt.caches, prompt.index, prompt.length)
        self._sampler.join(row, running.submit, running.sequence.produced, running.stop_ids)
        # A new array: the flight still has to read the old one.
        is_row = mx.arange(len(self._rows)) == row
        self._tokens = mx.where(is_row, prompt.ids[-1], self._tokens)
        self._is_steady = False

    def leave(self, running: Running) -> None:
        """Empty a sequence's row; what a flight brings for it means nothing any more."""
        running.is_gone = True
        row = self._rows.index(running)
        self._rows[row] = None
        self._batch.leave(row)
        self._sampler.leave(row)

    def reshape(self, rows: int, columns: int, *, coming: int = 0, is_tight: bool = False) -> None:
        """Make the batch so large, keeping every sequence; see RingBatch.resize."""
        order: list[int | None] = [
            None if running is None else row for row, running in enumerate(self._rows)
        ]
        if rows != len(order):
            order = [row for row in order if row is not None]
            order += [None] * (rows - len(order))
        self._batch.resize(order, columns, coming=coming, is_tight=is_tight)
        self._sampler.resize(order)
        picked = mx.array([index or 0 for index in order], dtype=mx.int32)
        had_rows = bool(self._rows)
        self._tokens = mx.take(self._tokens, picked) if had_rows else mx.zeros((rows,), mx.int32)
        self._rows = [None if index is None else self._rows[index] for index in order]
        self._is_steady = False
        self._num_steps = 0

    def clear(self) -> None:
        """Drop every sequence and the batch's memory."""
        for running in self.running():
            self.leave(running)
        self._batch.clear()
        self._sampler.resize([])
        self._rows = []
        self._tokens = mx.zeros((0,), mx.int32)

    def decode(self, allow: Callable[[], mx.array | None] | None = None) -> Flight | None:
        """Ask the device for one more token of every row; None if nobody may have one.

        When the device is at work, `allow` says which they may be, as BatchSampler wants it said;
        it may let rows leave.
        """
        if not any(each.num_asked < each.submit.max_tokens for each in self.running()):
            return None
        logits = self._batch.forward(self._tokens)
        mask = None
        if allow is not None:
            mx.async_eval(logits, self._batch.arrays())  # type: ignore[no-untyped-call]
            mask = allow()
            if not len(self):
                return None
        sampled = self._sampler(logits, mask)
        self._tokens = sampled.tokens
        mx.async_eval(sampled.arrays(), self._batch.arrays())  # type: ignore[no-untyped-call]
        for each in self.running():
            each.num_asked += 1
        self._num_steps += 1
        is_steady, self._is_steady = self._is_steady, True
        return Flight(self.places(), sampled, is_steady)
