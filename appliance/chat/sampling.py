"""Decide what a request samples with, and read what a model's folder says about it."""

from pathlib import Path
from typing import Any

from appliance.chat.folder import read_object
from appliance.chat.request import Sampling, SamplingParams
from appliance.errors import SourceError

GENERATION_CONFIG = "generation_config.json"

_NUMBERS = ("temperature", "top_p", "top_k", "min_p")
_CONTEXT_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "model_max_length",
)


def resolve_sampling(
    request: Sampling, operator: Sampling, generation_config: dict[str, Any]
) -> SamplingParams:
    """Return the request's value, else the operator's, else the model's own, else the neutral one.

    Field by field; an explicit 0 is a value. A `generation_config` that says do_sample false
    means temperature 0. Pure.
    """
    own = {name: generation_config.get(name) for name in _NUMBERS}
    if generation_config.get("do_sample") is False:
        own["temperature"] = 0.0
    neutral = SamplingParams()

    def first(name: str) -> float:
        wishes = (getattr(request, name), getattr(operator, name), own[name])
        return float(next((wish for wish in wishes if wish is not None), getattr(neutral, name)))

    return SamplingParams(
        temperature=first("temperature"),
        top_p=first("top_p"),
        top_k=max(0, int(first("top_k"))),
        min_p=first("min_p"),
        seed=request.seed,
    )


def read_generation_config(directory: Path) -> dict[str, Any]:
    """Return the model's generation_config.json, {} if it has none.

    Raises SourceError naming the file if it is no JSON object or a sampling value is no number.
    """
    path = directory / GENERATION_CONFIG
    config = read_object(path)
    for name in _NUMBERS:
        if not _is_number_or_none(config.get(name)):
            raise SourceError(str(path), f"{name} should be a number")
    return config


def context_length(directory: Path) -> int | None:
    """Return the most tokens the model's config.json allows in one sequence; None if it is silent.

    The language part of a model with several parts (`text_config`) comes first. Raises SourceError.
    """
    config = read_object(directory / "config.json")
    text = config.get("text_config")
    for section in (text if isinstance(text, dict) else {}, config):
        for key in _CONTEXT_KEYS:
            length = section.get(key)
            if isinstance(length, int) and not isinstance(length, bool) and length > 0:
                return length
    return None


def _is_number_or_none(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
