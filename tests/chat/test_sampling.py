import json
from pathlib import Path

import pytest

from appliance.chat.request import Sampling, SamplingParams
from appliance.chat.sampling import read_generation_config, resolve_sampling
from appliance.errors import SourceError


def test_sampling_is_neutral_where_nobody_says_anything() -> None:
    assert resolve_sampling(Sampling(), Sampling(), {}) == SamplingParams(1.0, 1.0, 0, 0.0, None)


def test_sampling_takes_each_field_from_the_first_that_has_it() -> None:
    request = Sampling(temperature=0.1, seed=7)
    operator = Sampling(temperature=0.2, top_p=0.3)
    own = {"temperature": 0.4, "top_p": 0.5, "top_k": 6, "min_p": None}

    assert resolve_sampling(request, operator, own) == SamplingParams(0.1, 0.3, 6, 0.0, 7)


def test_sampling_keeps_an_explicit_zero() -> None:
    request = Sampling(temperature=0, top_k=0)
    operator = Sampling(min_p=0)
    own = {"temperature": 0.6, "top_k": 20, "min_p": 0.1}

    assert resolve_sampling(request, operator, own) == SamplingParams(0.0, 1.0, 0, 0.0)


def test_penalties_are_the_requests_the_operators_or_the_models() -> None:
    request = Sampling(frequency_penalty=0.0, logit_bias={7: -100.0})
    operator = Sampling(frequency_penalty=0.5, presence_penalty=-1.0)
    # The library that writes these files has only one kind of penalty.
    own = {"repetition_penalty": 1.1, "presence_penalty": 2.0, "frequency_penalty": 2.0}

    params = resolve_sampling(request, operator, own)

    assert params == SamplingParams(
        repetition_penalty=1.1, presence_penalty=-1.0, logit_bias={7: -100.0}
    )


def test_penalty_of_the_model_yields_to_the_operators() -> None:
    own = {"repetition_penalty": 1.1, "do_sample": False}

    assert resolve_sampling(Sampling(), Sampling(), own).repetition_penalty == 1.1
    operators = resolve_sampling(Sampling(), Sampling(repetition_penalty=1.0), own)
    assert operators.repetition_penalty == 1.0


@pytest.mark.parametrize(
    ("request_temperature", "expected"),
    [pytest.param(None, 0.0, id="greedy"), pytest.param(0.5, 0.5, id="request wins")],
)
def test_model_that_does_not_sample_is_greedy(
    request_temperature: float | None, expected: float
) -> None:
    own = {"do_sample": False, "temperature": 0.9}

    params = resolve_sampling(Sampling(temperature=request_temperature), Sampling(), own)

    assert params.temperature == expected


def test_top_k_of_minus_one_means_off() -> None:
    assert resolve_sampling(Sampling(), Sampling(), {"top_k": -1}).top_k == 0


def test_generation_config_may_be_absent(tmp_path: Path) -> None:
    assert read_generation_config(tmp_path) == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"temperature": "hot"}', '{"top_k": true}'])
def test_malformed_generation_config_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "generation_config.json").write_text(text)

    with pytest.raises(SourceError, match=r"generation_config\.json"):
        read_generation_config(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "-1"),
        ("temperature", "Infinity"),
        ("temperature", "1" + "0" * 400),
        ("top_p", "0"),
        ("top_p", "1.5"),
        ("top_k", "Infinity"),
        ("top_k", "NaN"),
        ("top_k", "2.5"),
        ("top_k", "1" + "0" * 30),
        ("top_k", "-2"),
        ("min_p", "-0.1"),
        ("repetition_penalty", "0"),
        ("repetition_penalty", "Infinity"),
    ],
)
def test_generation_config_that_nothing_can_be_sampled_with_is_named(
    tmp_path: Path, name: str, value: str
) -> None:
    (tmp_path / "generation_config.json").write_text(f'{{"{name}": {value}}}')

    with pytest.raises(SourceError, match=rf"generation_config\.json: {name} is out of range"):
        read_generation_config(tmp_path)


@pytest.mark.parametrize("top_k", [-1, 0, 20, 50.0])
def test_generation_config_in_range_is_returned(tmp_path: Path, top_k: float) -> None:
    config = {"temperature": 0, "top_p": 1, "top_k": top_k, "min_p": 0.0}
    config["repetition_penalty"] = 1.1
    (tmp_path / "generation_config.json").write_text(json.dumps(config))

    assert read_generation_config(tmp_path) == config
