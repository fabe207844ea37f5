"""Hold what each row of a batch samples with, and sample one step for all of them together."""

import hashlib
import math
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import mlx.core as mx

from appliance.chat.request import SamplingParams
from appliance.engine.draw import IN_PROMPT, Arrays, Features, make_draw
from appliance.engine.wire import Submit, TokenLogprob, TokenPrompt
from appliance.engine.wish import MOST_LOGPROBS

# Below, a float32 cannot hold log-probability / temperature, and only the best token is likely.
_LEAST_TEMPERATURE = 1e-5
# So that the sum or product of a few of them is still a number in float32.
_LARGEST = 1e30
_SEED_BITS = 64
# Steps of one mix of features and one size before it is worth compiling.
_PATIENCE = 16
_WORD = 2**32
# Wider, and looking for the best k is no cheaper than sorting everything.
_WIDEST_CUT = 1024
_NARROWEST_CUT = 32


@dataclass(frozen=True)
class Sampled:
    """One step's outcome as lazy arrays.

    `tokens` int32 (B,), which the next step takes, so that only the thread that queues it may
    touch them; `column` (B, 1) are the same for any other. `is_sound` bool (B,): False where the
    row's logits hold NaN or +inf, or leave nothing to sample. Only if a row asked for
    log-probabilities, and from the logits before penalties, bias and temperature: `logprobs`
    float32 (B,) of the chosen tokens, `top_ids` int32 (B, K) and `top_logprobs` float32 (B, K) in
    falling order; K is 0 if no row asked for tops.
    """

    tokens: mx.array
    column: mx.array
    is_sound: mx.array
    logprobs: mx.array | None = None
    top_ids: mx.array | None = None
    top_logprobs: mx.array | None = None

    def arrays(self) -> list[mx.array]:
        """Return the arrays that are there, to evaluate them together."""
        tops = (self.logprobs, self.top_ids, self.top_logprobs)
        always = [self.tokens, self.column, self.is_sound]
        return always + [array for array in tops if array is not None]

    def logprob(self, row: int, num_tops: int) -> TokenLogprob:
        """Return what the wire says of a row that asked for so many tops: fewer if the model
        rules out the rest. Waits for the arrays if they are not evaluated."""
        token, logprob, ids, logprobs = self._columns[row]
        pairs = zip(ids[:num_tops], logprobs[:num_tops], strict=True)
        tops = [TokenLogprob(*pair) for pair in pairs if pair[1] > -math.inf]
        return TokenLogprob(token, logprob, top=tops)

    @cached_property
    def _columns(self) -> list[tuple[int, float, list[int], list[float]]]:
        arrays = (self.tokens, self.logprobs, self.top_ids, self.top_logprobs)
        return list(zip(*(array.tolist() for array in arrays if array is not None), strict=True))


@dataclass
class _Row:
    """A request in its row, and the number of tokens that it has made or that are being made."""

    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.0))
    stop_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    logprobs: int | None = None
    num_made: int = 0
    key: tuple[int, int] = (0, 0)
    # What a stop token gets that must not come yet.
    ban: float = -math.inf

    @property
    def is_random(self) -> bool:
        return self.sampling.temperature >= _LEAST_TEMPERATURE

    @property
    def has_penalty(self) -> bool:
        wishes = self.sampling
        penalties = (wishes.frequency_penalty, wishes.presence_penalty)
        return wishes.repetition_penalty != 1 or any(penalties)

    def biases(self) -> list[tuple[int, float]]:
        bias = [(token, _bound(value)) for token, value in self.sampling.logit_bias.items()]
        if self.num_made < self.min_tokens:
            bias += [(token, self.ban) for token in self.stop_ids]
        return bias

    def next_key(self) -> tuple[int, int]:
        return self.key[0], (self.key[1] + self.num_made) % _WORD


class BatchSampler:
    """The sampling wishes and histories of a batch's rows. Engine thread only.

    Rows without a request sample greedily and are of no interest. Arrays of a row's wishes are
    built when rows change; the histories (B, V) that penalties need live on the device, only
    while a row has a penalty. A row's draws come from its seed and the number of the token, so
    they are the same in any row, beside any others and after a preemption. `compiled` trades the
    first step of each new mix of features for fewer and faster kernels in the later ones.
    """

    def __init__(self, vocab_size: int, *, compiled: bool = False) -> None:
        self._vocab_size = vocab_size
        self._compiled = compiled
        self._rows: list[_Row | None] = []
        self._draws: dict[tuple[Features, bool], Callable[[mx.array, Arrays], Arrays]] = {}
        self._num_steps = Counter[tuple[Features, int]]()
        self._features = Features()
        self._arrays: Arrays = {}
        self._history: mx.array | None = None
        self._is_stale = True

    def join(
        self, row: int, submit: Submit, produced: Sequence[int], stop_ids: frozenset[int]
    ) -> None:
        """Put a request that `check_sampling` accepts into an empty row, which may be a new one.

        `produced` are the tokens it made before a preemption; `stop_ids` all that can end it.
        """
        assert isinstance(submit.prompt, TokenPrompt)
        if row >= len(self._rows):
            self._grow(row + 1)
        assert self._rows[row] is None
        joined = _Row(
            sampling=submit.sampling,
            stop_ids=tuple(sorted(stop_ids)),
            # A grammar's mask sees to it.
            min_tokens=0 if submit.grammar is not None else submit.min_tokens,
            logprobs=submit.logprobs,
            num_made=len(produced),
            key=_make_key(submit.sampling.seed),
            # Where a thought must end now, its mark may be the only token there is.
            ban=-math.inf if submit.thought is None else -_LARGEST,
        )
        self._rows[row] = joined
        self._is_stale = True
        if joined.has_penalty:
            if self._history is None:
                self._history = mx.zeros((len(self._rows), self._vocab_size), dtype=mx.int32)
            self._history[row] = self._read_history(submit.prompt.ids, produced)

    def leave(self, row: int) -> None:
        """Empty a row."""
        self._rows[row] = None
        self._is_stale = True
        self._drop_history()

    def resize(self, order: Sequence[int | None]) -> None:
        """Make new rows of old ones, by number; None is an empty row."""
        self._rows = [None if old is None else self._rows[old] for old in order]
        self._is_stale = True
        self._drop_history()
        if self._history is not None:
            self._history = self._history[mx.array([old or 0 for old in order])]

    def __call__(self, logits: mx.array, mask: mx.array | None = None) -> Sampled:
        """Return the next token of every row for logits (B, V), unevaluated.

        `mask` are the tokens that each row may have, as `make_draw` takes it; None allows all.
        Every request in the batch makes one token by it, in the order of the calls. There may be
        more rows of logits than requests ever joined, not fewer.
        """
        if logits.shape[0] > len(self._rows):
            self._grow(logits.shape[0])
        if self._is_stale:
            self._build()
        rows, features = self._arrays, self._features
        if self._history is not None:
            rows = rows | {"history": self._history}
        if mask is not None:
            rows, features = rows | {"mask": mask}, replace(features, has_mask=True)
        made = self._draw(features, logits.shape[0])(logits, rows)
        self._history = made.get("history")
        if "key" in made:
            self._arrays["key"] = made["key"]
        self._count()
        return Sampled(
            tokens=made["tokens"],
            column=made["column"],
            is_sound=made["is_sound"],
            logprobs=made.get("logprobs"),
            top_ids=made.get("top_ids"),
            top_logprobs=made.get("top_logprobs"),
        )

    def _draw(self, features: Features, size: int) -> Callable[[mx.array, Arrays], Arrays]:
        """Return the function for the features asked for, compiled once they have lasted."""
        self._num_steps[features, size] += 1
        is_lasting = self._num_steps[features, size] > _PATIENCE
        kind = (features, self._compiled and is_lasting)
        draw = self._draws.get(kind)
        if draw is None:
            draw = self._draws[kind] = make_draw(features, compiled=kind[1])
        return draw

    def _count(self) -> None:
        for row in self._rows:
            if row is not None:
                row.num_made += 1
                # Its stop tokens may come from now on.
                self._is_stale |= row.num_made == row.min_tokens

    def _grow(self, size: int) -> None:
        old = len(self._rows)
        self.resize([*range(old), *[None] * (size - old)])

    def _drop_history(self) -> None:
        if self._history is None:
            return
        if not any(row is not None and row.has_penalty for row in self._rows):
            self._history = None

    def _read_history(self, prompt: Sequence[int], produced: Sequence[int]) -> mx.array:
        history = mx.zeros((self._vocab_size,), dtype=mx.int32)
        history[mx.array(list(set(prompt)))] = IN_PROMPT
        if produced:
            history = history.at[mx.array(list(produced))].add(1)
        return history

    def _build(self) -> None:
        rows = [row or _Row() for row in self._rows]
        biases = [row.biases() for row in rows]
        cuts = [_Cut.of(row, self._vocab_size) for row in rows]
        self._features = Features(
            has_penalty=self._history is not None,
            has_bias=any(biases),
            is_random=any(row.is_random for row in rows),
            has_min_p=any(cut.log_min_p > -math.inf for cut in cuts),
            cut_width=_find_width(cuts, self._vocab_size),
            num_tops=_find_num_tops(rows, self._vocab_size),
        )
        self._arrays = {}
        if self._features.has_penalty:
            self._arrays |= _penalty_arrays(rows)
        if self._features.has_bias:
            self._arrays |= _bias_arrays(biases)
        if self._features.is_random:
            self._arrays |= _random_arrays(rows, cuts)
        self._is_stale = False


@dataclass(frozen=True)
class _Cut:
    """What a row's filters keep, as the draw wants it said."""

    top_p: float
    top_k: int
    log_min_p: float

    @classmethod
    def of(cls, row: _Row, vocab_size: int) -> "_Cut":
        wishes = row.sampling
        if not row.is_random:
            return cls(math.inf, vocab_size, -math.inf)
        return cls(
            # With rounding, the last of a row's tokens may lie beyond a share of 1.
            top_p=wishes.top_p if wishes.top_p < 1 else math.inf,
            top_k=wishes.top_k if 0 < wishes.top_k < vocab_size else vocab_size,
            log_min_p=math.log(wishes.min_p) if wishes.min_p > 0 else -math.inf,
        )


def _find_width(cuts: list[_Cut], vocab_size: int) -> int:
    widths = [cut.top_k for cut in cuts if cut.top_k < vocab_size or cut.top_p < math.inf]
    if not widths:
        return 0
    width = max(_NARROWEST_CUT, _round_up(max(widths)))
    return width if width <= min(_WIDEST_CUT, vocab_size) else vocab_size


def _find_num_tops(rows: list[_Row], vocab_size: int) -> int | None:
    wishes = [row.logprobs for row in rows if row.logprobs is not None]
    if not wishes:
        return None
    # Not the most that is asked: among equals, a row's tops must not depend on the others' wishes.
    return min(MOST_LOGPROBS, vocab_size) if any(wishes) else 0


def _penalty_arrays(rows: list[_Row]) -> Arrays:
    return {
        "repetition": _column([max(row.sampling.repetition_penalty, 1 / _LARGEST) for row in rows]),
        "frequency": _column([row.sampling.frequency_penalty for row in rows]),
        "presence": _column([row.sampling.presence_penalty for row in rows]),
    }


def _bias_arrays(biases: list[list[tuple[int, float]]]) -> Arrays:
    # Adding 0 to a token changes nothing; lengths of powers of two keep the shapes few.
    width = _round_up(max(len(bias) for bias in biases))
    padded = [bias + [(0, 0.0)] * (width - len(bias)) for bias in biases]
    return {
        "bias_ids": mx.array([[token for token, _ in bias] for bias in padded]),
        "bias": mx.array([[value for _, value in bias] for bias in padded]),
    }


def _random_arrays(rows: list[_Row], cuts: list[_Cut]) -> Arrays:
    heats = [row.sampling.temperature if row.is_random else 1.0 for row in rows]
    return {
        "key": mx.array([row.next_key() for row in rows], dtype=mx.uint32),
        "is_random": _column([float(row.is_random) for row in rows]),
        "inverse_temperature": _column([1 / min(heat, _LARGEST) for heat in heats]),
        "top_p": mx.array([[cut.top_p] for cut in cuts]),
        "top_k": mx.array([[cut.top_k] for cut in cuts]),
        "log_min_p": mx.array([[cut.log_min_p] for cut in cuts]),
    }


def _make_key(seed: int | None) -> tuple[int, int]:
    """Return two words of 32 bits that a seed always gives, far apart for neighbouring seeds."""
    number = secrets.randbits(_SEED_BITS) if seed is None else seed
    digest = hashlib.blake2b(str(number).encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def _column(values: list[float]) -> mx.array:
    return mx.array([[_bound(value)] for value in values], dtype=mx.float32)


def _bound(value: float) -> float:
    return max(-_LARGEST, min(value, _LARGEST))


def _round_up(number: int) -> int:
    return 1 << (number - 1).bit_length()
