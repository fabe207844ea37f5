"""What sampling should do, one row at a time in numpy's float64."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from appliance.chat.request import SamplingParams
from appliance.engine.wire import Submit, TokenPrompt

Floats = npt.NDArray[np.float64]


def adjust(
    logits: Sequence[float], submit: Submit, answered: Sequence[int], stop_ids: frozenset[int]
) -> Floats:
    """Return logits after penalties, bias and min_tokens."""
    assert isinstance(submit.prompt, TokenPrompt)
    wishes = submit.sampling
    scores = np.array(logits, dtype=np.float64)
    for token in {*submit.prompt.ids, *answered}:
        factor = wishes.repetition_penalty
        scores[token] = scores[token] * factor if scores[token] < 0 else scores[token] / factor
    for token in answered:
        scores[token] -= wishes.frequency_penalty
    for token in set(answered):
        scores[token] -= wishes.presence_penalty
    for token, bias in wishes.logit_bias.items():
        scores[token] += bias
    if len(answered) < submit.min_tokens:
        scores[list(stop_ids)] = -math.inf
    return scores


def log_softmax(scores: Sequence[float] | Floats) -> Floats:
    """Return log-probabilities."""
    floats = np.array(scores, dtype=np.float64)
    best = floats.max()
    shifted: Floats = floats - best - np.log(np.exp(floats - best).sum())
    return shifted


def weigh(scores: Floats, wishes: SamplingParams) -> Floats:
    """Return the probability of each token after the filters and the temperature."""
    logprobs = log_softmax(scores)
    falling = sorted(range(len(logprobs)), key=lambda token: (-logprobs[token], token))
    kept = np.zeros(len(logprobs), dtype=bool)
    mass = 0.0
    for rank, token in enumerate(falling):
        in_top_k = wishes.top_k <= 0 or rank < wishes.top_k
        in_min_p = logprobs[token] >= logprobs[falling[0]] + math.log(max(wishes.min_p, 1e-300))
        kept[token] = in_top_k and in_min_p and (rank == 0 or mass < wishes.top_p)
        mass += math.exp(logprobs[token])
    heated = np.where(kept, (logprobs - logprobs.max()) / wishes.temperature, -np.inf)
    weights: Floats = np.exp(heated)
    shares: Floats = weights / weights.sum()
    return shares
