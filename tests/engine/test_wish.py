"""Which sampling wishes are refused, and by which name."""

import math
from typing import Any

import msgspec
import pytest

from appliance.chat.request import SamplingParams
from appliance.engine.wire import Submit, TokenPrompt
from appliance.engine.wish import check_sampling
from appliance.errors import InvalidRequest

VOCAB_SIZE = 100
SUBMIT = Submit(model="m", id="a", prompt=TokenPrompt([1]), max_tokens=8)


@pytest.mark.parametrize(
    "wish",
    [
        {"temperature": 1e308},
        {"temperature": 1e-300},
        {"top_k": -1},
        {"top_k": 2**31 - 1},
        {"top_p": 1e-300, "min_p": 1.0},
        {"seed": -(2**64)},
        {"seed": 2**64},
        {"repetition_penalty": 1e-300},
        {"frequency_penalty": -1e308, "presence_penalty": 1e308},
        {"logit_bias": {0: -100.0, VOCAB_SIZE - 1: 100.0}},
    ],
)
def test_wishes_at_the_edge_are_accepted(wish: dict[str, Any]) -> None:
    check_sampling(msgspec.structs.replace(SUBMIT, sampling=SamplingParams(**wish)), VOCAB_SIZE)


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -2),
        ("min_p", 1.5),
        ("min_p", math.nan),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.inf),
        ("repetition_penalty", math.nan),
        ("frequency_penalty", math.nan),
        ("presence_penalty", -math.inf),
        ("logit_bias", {VOCAB_SIZE: 1.0}),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {5: math.nan}),
    ],
)
def test_wishes_out_of_range_are_refused_by_name(param: str, value: object) -> None:
    sampling = msgspec.structs.replace(SamplingParams(), **{param: value})

    with pytest.raises(InvalidRequest) as caught:
        check_sampling(msgspec.structs.replace(SUBMIT, sampling=sampling), VOCAB_SIZE)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("stop_token_ids", (3, VOCAB_SIZE)),
        ("stop_token_ids", (-1,)),
        ("logprobs", -1),
        ("logprobs", 21),
        ("min_tokens", -1),
        ("min_tokens", 9),
    ],
)
def test_limits_out_of_range_are_refused_by_name(param: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_sampling(msgspec.structs.replace(SUBMIT, **{param: value}), VOCAB_SIZE)

    assert caught.value.param == param


def test_limits_at_the_edge_are_accepted() -> None:
    submit = msgspec.structs.replace(
        SUBMIT, stop_token_ids=(0, VOCAB_SIZE - 1), logprobs=20, min_tokens=8
    )

    check_sampling(submit, VOCAB_SIZE)
