"""Turn sampling wishes into a function from log-probabilities to tokens."""

import secrets
from collections.abc import Callable

import mlx.core as mx
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p, greedy_sampler

from appliance.chat.request import SamplingParams

Sampler = Callable[[mx.array], mx.array]

_SEED_BITS = 64
# Below, a float32 cannot hold log-probability / temperature, and only the best token is likely.
_LEAST_TEMPERATURE = 1e-5


def make_sampler(params: SamplingParams, vocab_size: int) -> Sampler:
    """Return a sampler for one request: log-probabilities (1, vocab) in, token ids (1,) out.

    Greedy requests share one function, so a batch of them is sampled in one call. Others draw
    with a key of their own, split once a token: what a seed gives does not depend on who else is
    in the batch. The filters come in the order of `mlx_lm.sample_utils.make_sampler`: top_p,
    min_p, top_k, then the temperature.
    """
    if params.temperature < _LEAST_TEMPERATURE:
        greedy: Sampler = greedy_sampler
        return greedy
    filters = _make_filters(params, vocab_size)
    scale = 1.0 / params.temperature
    seed = secrets.randbits(_SEED_BITS) if params.seed is None else params.seed
    key = mx.random.key(seed % 2**_SEED_BITS)

    def sample(logprobs: mx.array) -> mx.array:
        nonlocal key
        for keep in filters:
            logprobs = keep(logprobs)
        key, now = mx.random.split(key)
        return mx.random.categorical(logprobs * scale, key=now)

    return sample


def _make_filters(params: SamplingParams, vocab_size: int) -> list[Sampler]:
    filters: list[Sampler] = []
    if params.top_p < 1:
        filters.append(lambda logprobs: apply_top_p(logprobs, params.top_p))
    if params.min_p > 0:
        filters.append(lambda logprobs: apply_min_p(logprobs, params.min_p))
    if 0 < params.top_k < vocab_size:
        filters.append(lambda logprobs: apply_top_k(logprobs, params.top_k))
    return filters
