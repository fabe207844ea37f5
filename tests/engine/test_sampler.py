"""What the coldest temperatures give."""

import mlx.core as mx
import pytest

from appliance.chat.request import SamplingParams
from appliance.engine.sampler import make_sampler

pytestmark = pytest.mark.mlx


@pytest.mark.parametrize("temperature", [0.0, 1e-300, 1e-39, 1e-8, 1e-5])
def test_sampler_with_hardly_any_temperature_takes_the_likeliest(temperature: float) -> None:
    scores = mx.array([[1.0, 2.0, 9.0, 8.0, 0.0]])
    logprobs = scores - mx.logsumexp(scores, keepdims=True)
    sample = make_sampler(SamplingParams(temperature=temperature, seed=3), 5)

    drawn = [sample(logprobs).tolist() for _ in range(20)]

    assert drawn == [[2]] * 20
