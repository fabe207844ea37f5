"""Decide whether a request's sampling wishes can be honoured at all."""

import math
from collections.abc import Iterable

from appliance.chat.sampling import is_in_range
from appliance.engine.wire import Submit
from appliance.errors import InvalidRequest

MOST_LOGPROBS = 20

_NARROW = ("temperature", "top_p", "top_k", "min_p")
_FINITE = ("frequency_penalty", "presence_penalty")


def check_sampling(submit: Submit, vocab_size: int) -> None:
    """Raise InvalidRequest, `param` naming the field, for what nothing can be sampled with.

    Ids must be those of a vocabulary of `vocab_size` tokens. Pure; any thread.
    """
    sampling = submit.sampling
    for name in _NARROW:
        _require(is_in_range(name, getattr(sampling, name)), name, "is out of range")
    for name in _FINITE:
        _require(math.isfinite(getattr(sampling, name)), name, "must be a finite number")
    _require(
        0 < sampling.repetition_penalty < math.inf,
        "repetition_penalty",
        "must be a finite number above 0",
    )
    _require(
        all(math.isfinite(bias) for bias in sampling.logit_bias.values()),
        "logit_bias",
        "must hold finite numbers",
    )
    beyond = f"has a token beyond the vocabulary of {vocab_size}"
    _require(_are_known(sampling.logit_bias, vocab_size), "logit_bias", beyond)
    _require(_are_known(submit.stop_token_ids, vocab_size), "stop_token_ids", beyond)
    _require(
        submit.logprobs is None or 0 <= submit.logprobs <= MOST_LOGPROBS,
        "logprobs",
        f"must lie between 0 and {MOST_LOGPROBS}",
    )
    _require(
        0 <= submit.min_tokens <= submit.max_tokens,
        "min_tokens",
        f"must lie between 0 and max_tokens, {submit.max_tokens}",
    )


def _require(is_right: bool, param: str, reason: str) -> None:
    if not is_right:
        raise InvalidRequest(f"{param} {reason}.", param=param)


def _are_known(ids: Iterable[int], vocab_size: int) -> bool:
    return all(0 <= token < vocab_size for token in ids)
