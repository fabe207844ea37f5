"""Decide the next token of every row of a batch: pure functions of arrays, nothing on the host.

Every operation works row by row, and what a row did not ask for leaves its numbers as they are
to the last bit, so that its tokens do not depend on who else is in the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import mlx.core as mx

# In a history, beside the count of answers: the prompt has this token.
IN_PROMPT = 1 << 30

_MOST_ANSWERS = IN_PROMPT - 1
# Half the least of 32 random bits: 0 itself would be noise of minus infinity.
_LEAST_UNIFORM = 2.0**-33

Arrays = dict[str, mx.array]


@dataclass(frozen=True)
class Features:
    """What at least one row of a batch asks for; the same features are the same computation.

    `has_mask`: not every row may have every token.
    `cut_width`: how many of a row's best scores decide top_p and top_k, 0 = no row has either.
    `num_tops`: how many of the likeliest tokens are listed, None = no log-probabilities at all.
    """

    has_penalty: bool = False
    has_bias: bool = False
    has_mask: bool = False
    is_random: bool = False
    has_min_p: bool = False
    cut_width: int = 0
    num_tops: int | None = None


def make_draw(features: Features, *, compiled: bool) -> Callable[[mx.array, Arrays], Arrays]:
    """Return the function from logits (B, V) and the rows' arrays to the next tokens.

    The rows' arrays, those that the features call for: `history` (B, V) int32 and `repetition`,
    `frequency`, `presence` (B, 1); `bias_ids`, `bias` (B, N); `mask` (B, V / 32) uint32, of which
    bit n % 32 of word n // 32 allows token n; `key` (B, 2) uint32, `is_random`,
    `inverse_temperature`, `log_min_p`, `top_p`, `top_k` (B, 1). It returns `tokens` int32 (B,),
    the same as `column` (B, 1), `is_sound` bool (B,), with log-probabilities `logprobs` (B,),
    `top_ids` and `top_logprobs` (B, K), and the `key` and `history` of the next step. Nothing is
    evaluated.

    The order: penalties, bias, mask, then for random rows the filters and the temperature. Neutral
    values (penalties 1 and 0, bias 0, temperature 1, `top_p` infinity, `top_k` the vocabulary's
    size, `log_min_p` minus infinity) change nothing.
    """
    draw = partial(_draw, features)
    return mx.compile(draw) if compiled else draw


def _draw(features: Features, logits: mx.array, rows: Arrays) -> Arrays:
    is_plain = features == Features() and logits.dtype != mx.float16
    raw = logits if is_plain else logits.astype(mx.float32)
    scores = raw
    if features.has_penalty:
        scores = _penalise(scores, rows)
    if features.has_bias:
        scores = scores.at[_row_numbers(scores), rows["bias_ids"]].add(rows["bias"])
    if features.has_mask:
        scores = mx.where(_unpack(rows["mask"], scores.shape[-1]), scores, -mx.inf)
    if features.is_random:
        scores = _randomise(features, scores, rows)
    tokens = mx.argmax(scores, axis=-1, keepdims=True).astype(mx.int32)
    is_sound = _find_sound(raw, scores, tokens)
    made = {"tokens": tokens[:, 0], "column": tokens, "is_sound": is_sound}
    if features.num_tops is not None:
        made |= _list_tops(raw, tokens, features.num_tops)
    if features.is_random:
        made["key"] = rows["key"] + mx.array([0, 1], dtype=mx.uint32)
    if features.has_penalty:
        # An index out of range, should a row of NaN ever give one, would write foreign memory.
        seen = mx.clip(tokens, 0, logits.shape[-1] - 1)
        made["history"] = rows["history"].at[_row_numbers(seen), seen].add(1)
    return made


def _find_sound(raw: mx.array, scores: mx.array, tokens: mx.array) -> mx.array:
    # A sum with NaN or infinity in it is NaN or infinite, and minus infinity is no fault.
    is_finite = mx.sum(raw, axis=-1) < mx.inf
    return is_finite & (mx.take_along_axis(scores, tokens, axis=-1)[:, 0] > -mx.inf)


def _row_numbers(array: mx.array) -> mx.array:
    return mx.arange(array.shape[0])[:, None]


def _unpack(words: mx.array, size: int) -> mx.array:
    """Return bits (B, size) as booleans."""
    bits = mx.bitwise_and(words[:, :, None] >> mx.arange(32, dtype=mx.uint32), 1)
    return bits.reshape(words.shape[0], -1)[:, :size].astype(mx.bool_)


def _penalise(scores: mx.array, rows: Arrays) -> mx.array:
    repetition = rows["repetition"]
    repeated = mx.where(scores < 0, scores * repetition, scores / repetition)
    scores = mx.where(rows["history"] > 0, repeated, scores)
    answers = mx.bitwise_and(rows["history"], _MOST_ANSWERS)
    scores = scores - answers * rows["frequency"]
    return scores - (answers > 0) * rows["presence"]


def _randomise(features: Features, scores: mx.array, rows: Arrays) -> mx.array:
    """Return scores of which the largest is a draw, or still the best for a greedy row."""
    best = mx.max(scores, axis=-1, keepdims=True)
    scores = scores - mx.where(mx.isfinite(best), best, 0.0)
    kept = scores
    if features.cut_width:
        kept = mx.where(_keep_likely(scores, rows, features.cut_width), kept, -mx.inf)
    if features.has_min_p:
        kept = mx.where(scores >= rows["log_min_p"], kept, -mx.inf)
    noise = _make_noise(rows["key"], scores.shape[-1])
    return kept * rows["inverse_temperature"] + noise * rows["is_random"]


def _keep_likely(scores: mx.array, rows: Arrays, width: int) -> mx.array:
    """Say which tokens are in top_p (with all that tie with its last) and in top_k (exactly k,
    of those that tie for the last place the lower ids).

    Both keep the best n of a row for some n, so one sort, of the best `width`, serves both. A row
    whose top_k is above `width` keeps everything.
    """
    best = mx.topk(scores, width, axis=-1) if width < scores.shape[-1] else scores
    best = mx.sort(best, axis=-1)[:, ::-1]
    mass = mx.sum(mx.exp(scores), axis=-1, keepdims=True)
    mass_above = mx.cumsum(mx.exp(best), axis=-1, inclusive=False)
    num_likely = mx.sum(mass_above < rows["top_p"] * mass, axis=-1, keepdims=True)
    num_kept = mx.clip(mx.minimum(num_likely, rows["top_k"]), 1, width)
    edge = mx.take_along_axis(best, num_kept - 1, axis=-1)
    edge = mx.where(rows["top_k"] <= width, edge, -mx.inf)
    places = rows["top_k"] - mx.sum(best > edge, axis=-1, keepdims=True)
    is_tied = scores == edge
    place = mx.cumsum(is_tied.astype(mx.int32), axis=-1)
    return (scores > edge) | (is_tied & (place <= places))


def _make_noise(keys: mx.array, size: int) -> mx.array:
    """Return Gumbel noise (B, size), a row from its key alone: where log-weights plus such noise
    are largest is a draw by the weights."""
    uniform = mx.vmap(lambda key: mx.random.uniform(shape=(size,), key=key))(keys)
    return -mx.log(-mx.log(mx.maximum(uniform, _LEAST_UNIFORM)))


def _list_tops(raw: mx.array, tokens: mx.array, num_tops: int) -> Arrays:
    logprobs = raw - mx.logsumexp(raw, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(logprobs, tokens, axis=-1)[:, 0]
    ids = mx.zeros((logprobs.shape[0], 0), dtype=mx.int32)
    if num_tops:
        ids = mx.argpartition(-logprobs, kth=num_tops - 1, axis=-1)[:, :num_tops]
        ids = mx.sort(ids.astype(mx.int32), axis=-1)
    tops = mx.take_along_axis(logprobs, ids, axis=-1)
    if num_tops:
        order = mx.argsort(-tops, axis=-1)
        ids, tops = (mx.take_along_axis(array, order, axis=-1) for array in (ids, tops))
    return {"logprobs": chosen, "top_ids": ids, "top_logprobs": tops}
