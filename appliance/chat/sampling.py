"""Decide what a request samples with, and read what a model's folder says about it."""

import sys
from pathlib import Path
from typing import Any

from appliance.chat.folder import read_object
from appliance.chat.request import Sampling, SamplingParams
from appliance.errors import SourceError

GENERATION_CONFIG = "generation_config.json"

_NUMBERS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_MOST_TOP_K = 2**31 - 1


def resolve_sampling(
    request: Sampling, operator: Sampling, generation_config: dict[str, Any]
) -> SamplingParams:
    """Return the request's value, else the operator's, else the model's own, else the neutral one.

    Field by field; an explicit 0 is a value. Biases and seed are the request's alone. A
    `generation_config` that says do_sample false means temperature 0. Pure.
    """
    own = {name: generation_config.get(name) for name in _NUMBERS}
    if generation_config.get("do_sample") is False:
        own["temperature"] = 0.0
    neutral = SamplingParams()

    def first(name: str) -> float:
        wishes = (getattr(request, name), getattr(operator, name), own.get(name))
        return float(next((wish for wish in wishes if wish is not None), getattr(neutral, name)))

    return SamplingParams(
        temperature=first("temperature"),
        top_p=first("top_p"),
        top_k=max(0, int(first("top_k"))),
        min_p=first("min_p"),
        seed=request.seed,
        repetition_penalty=first("repetition_penalty"),
        frequency_penalty=first("frequency_penalty"),
        presence_penalty=first("presence_penalty"),
        logit_bias=request.logit_bias,
    )


def read_generation_config(directory: Path) -> dict[str, Any]:
    """Return the model's generation_config.json, {} if it has none.

    Raises SourceError naming the file if it is no JSON object, or has a sampling value (which it
    names too) that is no number or that nothing can be sampled with.
    """
    path = directory / GENERATION_CONFIG
    config = read_object(path)
    for name in _NUMBERS:
        value = config.get(name)
        if not _is_number_or_none(value):
            raise SourceError(str(path), f"{name} should be a number")
        if value is not None and not is_in_range(name, value):
            raise SourceError(str(path), f"{name} is out of range")
    return config


def is_in_range(name: str, value: float) -> bool:
    """Say whether the sampling parameter `name` may have this value; top_k -1 and 0 mean off."""
    match name:
        case "temperature":
            return 0 <= value <= sys.float_info.max
        case "top_p":
            return 0 < value <= 1
        case "top_k":
            return -1 <= value <= _MOST_TOP_K and value == int(value)
        case "min_p":
            return 0 <= value <= 1
        case "repetition_penalty":
            return 0 < value <= sys.float_info.max
    raise KeyError(name)


def _is_number_or_none(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
