"""Decide how many prompt tokens are read beside a decode step, from how long both have taken.

Two things share one device by turns: while prompts are read, every running stream waits `gap` of
its usual steps for a token, and a prompt takes gap / (gap - 1) of its time alone. Pure: seconds
are passed in.
"""

from collections import deque
from dataclasses import dataclass, field
from statistics import median

_GAP = 2.3
_ALONE_SECONDS = 1.0
_LEAST_TOKENS = 32
_MOST_GROWTH = 2.0
_RECENT = 0.5
_SAMPLES = 9
_OFFSET_TOKENS = 1024
_MOST_GUESSES = 4
# Sizes that differ by less are one size, where each new one costs.
_LOOSE = 0.75
_SLACK = 1.05
_LEAST_STEP = 16


@dataclass(slots=True)
class Pace:
    """The speeds of one model on this machine. Engine thread only.

    `most_tokens` bounds a chunk; `overhead` is what a chunk costs whatever its size, `per_token`
    what each token adds, in seconds: first measured at load, then corrected by what chunks took.
    With `has_few_sizes` a chunk is of a size that `few_sizes` returns and stays so while it fits
    roughly: for devices that take long over the first chunk of each new shape.
    """

    most_tokens: int
    overhead: float
    per_token: float
    has_few_sizes: bool = False
    _decode: dict[int, deque[float]] = field(default_factory=dict)
    _factors: dict[int, tuple[int, float]] = field(default_factory=dict)
    _held: dict[int, int] = field(default_factory=dict)
    _num_guesses: int = 0

    def chunk_tokens(self, rows: int, offset: int) -> int:
        """Return how many prompt tokens to read now, beside a decode step of `rows` rows.

        0 rows = nobody waits. `offset` is where in its prompt the chunk begins. 0 tokens means:
        take a step without, to learn how long one takes.
        """
        if rows and self._must_learn(rows):
            return 0
        seconds = self._budget(rows)
        room = seconds / self._factor(offset) - self.overhead
        # Where the overhead alone fills the budget, small chunks would only add more of it.
        tokens = room if room > self.overhead else self.overhead
        wanted = max(int(tokens / self.per_token), _LEAST_TOKENS)
        return min(self._rounded(wanted, _bucket(rows)), self.most_tokens)

    def chunk_seconds(self, tokens: int, offset: int) -> float:
        """Return how long a chunk should take by itself."""
        return (self.overhead + tokens * self.per_token) * self._factor(offset)

    def note_decode(self, rows: int, seconds: float) -> None:
        """Note how long a step of `rows` rows took without a chunk."""
        self._decode.setdefault(_bucket(rows), deque(maxlen=_SAMPLES)).append(seconds)

    def note_chunk(self, tokens: int, offset: int, seconds: float) -> None:
        """Note how long a chunk took by itself."""
        expected = self.overhead + tokens * self.per_token
        factor = self._factor(offset)
        seen = min(max(seconds / expected, factor / _MOST_GROWTH), factor * _MOST_GROWTH)
        self._factors[offset // _OFFSET_TOKENS] = (offset, factor + _RECENT * (seen - factor))

    def decode_seconds(self, rows: int) -> float | None:
        """Return how long a step of `rows` rows takes, or one of fewer; None if none was seen."""
        known = [each for each in self._decode if each <= _bucket(rows)]
        return median(self._decode[max(known)]) if known else None

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
            step = _step(wanted)
            held = self._held[bucket] = wanted // step * step
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


def few_sizes(tokens: int) -> int:
    """Return the next of few sizes: a multiple of 16, at most an eighth more from 128 on."""
    step = _step(tokens)
    return -(-tokens // step) * step


def _step(tokens: int) -> int:
    return max(_LEAST_STEP, 1 << max(0, tokens.bit_length() - 4))


def _bucket(rows: int) -> int:
    return rows.bit_length()
