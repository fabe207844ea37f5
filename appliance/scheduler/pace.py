"""Decide how many prompt tokens are read beside a decode step, from how long both have taken.

Two things share one device by turns: while prompts are read, every running stream waits `gap` of
its usual steps for a token, and a prompt takes gap / (gap - 1) of its time alone. Pure: seconds
are passed in.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import median

_GAP = 2.3
_ALONE_SECONDS = 2.0
_LEAST_TOKENS = 32
_MOST_GROWTH = 2.0
_RECENT = 0.5
_SAMPLES = 9
_OFFSET_TOKENS = 1024
_MOST_GUESSES = 4
# Where launching is what takes time, a chunk of so much longer than the smallest holds nobody up
# that the smallest would not.
_LAUNCH_BOUND = 1.5
# Where each new size costs, one is kept while it is so much of what is wanted.
_LOOSE = 0.75
_SLACK = 1.05
# That a token adds to a chunk.
_LEAST_SECONDS = 1e-9

Rung = tuple[int, float]


@dataclass(slots=True)
class Pace:
    """The speeds of one model on this machine. Engine thread only.

    `most_tokens` bounds a chunk. `ladder` are sizes of chunks, rising, and the seconds each took
    at load (at least one); what chunks take later corrects it. With `has_few_sizes`, for devices
    that take long over the first chunk of each new shape, a chunk is of one of four sizes for each
    doubling, kept while it fits roughly, and tells nothing that first time.
    """

    most_tokens: int
    ladder: Sequence[Rung]
    has_few_sizes: bool = False
    _decode: dict[int, deque[float]] = field(default_factory=dict)
    _factors: dict[int, tuple[int, float]] = field(default_factory=dict)
    _held: dict[int, int] = field(default_factory=dict)
    _num_guesses: int = 0
    _worthwhile_tokens: int = _LEAST_TOKENS

    def __post_init__(self) -> None:
        """Take a larger chunk for at least as slow as the smaller ones."""
        sizes, seconds = zip(*self.ladder, strict=True)
        self.ladder = list(zip(sizes, accumulate(seconds, max), strict=True))
        self._worthwhile_tokens = max(_LEAST_TOKENS, self._find_worthwhile())

    def chunk_tokens(self, rows: int, offset: int) -> int:
        """Return how many prompt tokens to read now, beside a decode step of `rows` rows.

        0 rows = nobody waits. `offset` is where in its prompt the chunk begins. 0 tokens means:
        take a step without, to learn how long one takes.
        """
        if rows and self._must_learn(rows):
            return 0
        seconds = self._budget(rows) / self._factor(offset)
        if self.has_few_sizes:
            seconds = max(seconds, self.ladder[0][1] * _LAUNCH_BOUND)
        wanted = max(self._tokens_in(seconds), self._worthwhile_tokens)
        return min(self._rounded(wanted, _bucket(rows)), self.most_tokens)

    def chunk_seconds(self, tokens: int, offset: int) -> float:
        """Return how long a chunk should take by itself."""
        return self._seconds_of(tokens) * self._factor(offset)

    def note_decode(self, rows: int, seconds: float) -> None:
        """Note how long a step of `rows` rows took without a chunk."""
        self._decode.setdefault(_bucket(rows), deque(maxlen=_SAMPLES)).append(seconds)

    def note_chunk(
        self, tokens: int, offset: int, seconds: float, *, is_new_shape: bool = False
    ) -> None:
        """Note how long a chunk took by itself."""
        if is_new_shape and self.has_few_sizes:
            return
        factor = self._factor(offset)
        ratio = seconds / self._seconds_of(tokens)
        seen = min(max(ratio, factor / _MOST_GROWTH), factor * _MOST_GROWTH)
        self._factors[offset // _OFFSET_TOKENS] = (offset, factor + _RECENT * (seen - factor))

    def decode_seconds(self, rows: int) -> float | None:
        """Return how long a step of `rows` rows takes, or one of fewer; None if none was seen."""
        known = [each for each in self._decode if each <= _bucket(rows)]
        return median(self._decode[max(known)]) if known else None

    def _seconds_of(self, tokens: int) -> float:
        """Return what a chunk took at load, in lines through the ladder."""
        (low, begin), slope = self._rung(lambda rung: rung[0] <= tokens)
        return begin + (tokens - low) * slope

    def _tokens_in(self, seconds: float) -> int:
        """Return the largest chunk of so many seconds."""
        (low, begin), slope = self._rung(lambda rung: rung[1] <= seconds)
        return low + int((seconds - begin) / slope)

    def _rung(self, is_below: Callable[[Rung], bool]) -> tuple[Rung, float]:
        """Return the last rung below, or the first, and the seconds a token adds from there on."""
        if len(self.ladder) == 1:
            size, seconds = self.ladder[0]
            return (0, 0.0), max(seconds / size, _LEAST_SECONDS)
        last = sum(map(is_below, self.ladder)) - 1
        last = min(max(last, 0), len(self.ladder) - 2)
        return self.ladder[last], _slope(*self.ladder[last : last + 2])

    def _find_worthwhile(self) -> int:
        """Return the least chunk that is read at half the speed of the largest.

        Where what a chunk costs whatever its size fills the budget, smaller ones would only pay
        that more often.
        """
        size, seconds = self.ladder[-1]
        speed = size / seconds / 2
        for rung, following in pairwise(self.ladder):
            slope = _slope(rung, following)
            share = 1 - speed * slope
            tokens = speed * (rung[1] - rung[0] * slope) / share if share > 0 else math.inf
            if tokens <= following[0]:
                return int(tokens)
        return 0

    def _budget(self, rows: int) -> float:
        seconds = self.decode_seconds(rows) if rows else None
        return _ALONE_SECONDS if seconds is None else seconds * (_GAP - 1)

    def _rounded(self, wanted: int, bucket: int) -> int:
        """Return one of few sizes that is not above what is wanted, or hardly."""
        if not self.has_few_sizes:
            quantum = 1 << max(0, wanted.bit_length() - 6)
            return wanted // quantum * quantum
        held = self._held.get(bucket, 0)
        if not _LOOSE * wanted <= held <= _SLACK * wanted:
            quarter = 1 << max(0, wanted.bit_length() - 3)
            held = self._held[bucket] = wanted // quarter * quarter
        return held

    def _must_learn(self, rows: int) -> bool:
        """Say, every so often, that no step of so many rows was seen yet."""
        if _bucket(rows) in self._decode:
            return False
        self._num_guesses += 1
        return self._num_guesses % _MOST_GUESSES == 1

    def _factor(self, offset: int) -> float:
        """Return the correction at this offset, in a line between those last seen around it."""
        seen = sorted(self._factors.values())
        before = [each for each in seen if each[0] <= offset][-1:]
        after = [each for each in seen if each[0] > offset][:1]
        match before + after:
            case [(low, first), (high, last)]:
                return first + (last - first) * (offset - low) / (high - low)
            case [(_, only)]:
                return only
            case _:
                return 1.0


def _slope(rung: Rung, following: Rung) -> float:
    return max((following[1] - rung[1]) / (following[0] - rung[0]), _LEAST_SECONDS)


def _bucket(rows: int) -> int:
    return rows.bit_length()
