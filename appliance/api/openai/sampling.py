"""Define how OpenAI's dialects say what to sample with and when to stop; shared by their bodies.

Source: OpenAI's API reference, with the extensions that local servers share (top_k, min_p,
ignore_eos …). Of those without a standard: `priority` is absolute, and only lowers the caller's
own; `timeout` is in seconds, and only shortens the server's.
"""

import re
from typing import Annotated, Any

from msgspec import UNSET, Meta

from appliance.api.openai.refusal import Refusable, neutral, unserved_fields
from appliance.api.openai.structure import StructureFields, to_structure
from appliance.chat.request import ChatRequest, Sampling, Structure
from appliance.errors import InvalidRequest

MAX_TOKEN_ID = 2**31 - 1
MOST_TOKENS = 2**31 - 1

TokenId = Annotated[int, Meta(ge=0, le=MAX_TOKEN_ID)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]

# One spelling for each number, so that none comes twice.
_TOKEN_ID = re.compile("0|[1-9][0-9]{0,9}")
_MOST_BIAS = 100
_MOST_SHOWN = 40


class SamplingFields(StructureFields, kw_only=True):
    """The fields that say how tokens are chosen, of those that the answer's form leaves."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=MOST_TOKENS)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    # Keys and values are checked by `to_sampling`, which can name the one that is wrong.
    logit_bias: Annotated[dict[str, Any], Meta(max_length=1024)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None


class GenerationFields(SamplingFields, kw_only=True):
    """What every body of these dialects may say of the answer, beside how much may be answered."""

    model: str
    stop: str | Annotated[list[str], Meta(max_length=16)] | None = None
    stop_token_ids: Annotated[list[TokenId], Meta(max_length=64)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=MOST_TOKENS)] | None = None
    ignore_eos: bool | None = None
    priority: Annotated[int, Meta(ge=-1000, le=1000)] | None = None
    timeout: Annotated[float, Meta(gt=0)] | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    cache_salt: Annotated[Refusable, neutral()] = UNSET
    moderation: Annotated[Refusable, neutral()] = UNSET


def to_sampling(fields: SamplingFields) -> Sampling:
    """Return the sampling wishes; raises InvalidRequest naming the bias that is wrong."""
    top_k, biases = fields.top_k, fields.logit_bias
    return Sampling(
        temperature=fields.temperature,
        top_p=fields.top_p,
        top_k=None if top_k is None else max(0, top_k),
        min_p=fields.min_p,
        repetition_penalty=fields.repetition_penalty,
        frequency_penalty=fields.frequency_penalty,
        presence_penalty=fields.presence_penalty,
        logit_bias={_token_id(key): _bias(key, value) for key, value in (biases or {}).items()},
        seed=fields.seed,
    )


def to_request(
    fields: GenerationFields, max_tokens: int | None, structure: Structure | None = None
) -> ChatRequest:
    """Return what these fields ask for, of nothing yet; `max_tokens` is under the dialect's name.

    `structure` is what a field of the dialect's own wants the answer to be. Raises InvalidRequest
    naming the field.
    """
    stop = fields.stop
    stops = [stop] if isinstance(stop, str) else stop or []
    return ChatRequest(
        model=fields.model,
        sampling=to_sampling(fields),
        max_tokens=max_tokens,
        min_tokens=_min_tokens(fields.min_tokens or 0, max_tokens),
        stop=tuple(each for each in stops if each),
        stop_token_ids=tuple(fields.stop_token_ids or ()),
        ignore_eos=bool(fields.ignore_eos),
        priority=fields.priority,
        timeout_seconds=fields.timeout,
        structure=to_structure(fields, structure),
        unserved=unserved_fields(fields),
    )


def _token_id(key: str) -> int:
    if not _TOKEN_ID.fullmatch(key) or (number := int(key)) > MAX_TOKEN_ID:
        raise _bias_error(key, "the key should be a token id")
    return number


def _bias(key: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _bias_error(key, "should be a number")
    if not -_MOST_BIAS <= value <= _MOST_BIAS:
        raise _bias_error(key, f"should be from -{_MOST_BIAS} to {_MOST_BIAS}")
    return float(value)


def _bias_error(key: str, reason: str) -> InvalidRequest:
    place = f"logit_bias['{key[:_MOST_SHOWN]}']"
    return InvalidRequest(f"{place}: {reason}.", param=place)


def _min_tokens(least: int, most: int | None) -> int:
    if most is not None and least > most:
        raise InvalidRequest(
            f"min_tokens is {least}, more than the {most} that the answer may have at most.",
            param="min_tokens",
        )
    return least
