"""Keys and values are forecast as MLX really holds them, or higher."""

from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

from appliance.chat.folder import read_object
from appliance.engine.ring import kv_shape
from appliance.registry.forecast import kv_costs
from appliance.scheduler.room import KvLayer
from tests.tiny_models import ARCHITECTURES, write_tiny_model

pytestmark = pytest.mark.mlx

_EXACT = ("llama", "qwen3", "qwen3_moe", "gemma3_text", "falcon_h1")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kv_costs_are_those_of_the_caches(architecture: str, tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path, architecture)
    model, _ = load_model(folder)
    caches = make_prompt_cache(model)
    mx.eval(model(mx.array([[0, 0]]), cache=caches))
    real = kv_shape(caches).layers

    costs = kv_costs(read_object(folder / "config.json"), 4)

    forecast = tuple(KvLayer(cost.token_bytes, cost.window) for cost in costs)
    if architecture in _EXACT:
        assert forecast == real
    for columns in (1, 100):
        assert _bytes(forecast, columns) >= _bytes(real, columns)


def _bytes(layers: tuple[KvLayer, ...], columns: int) -> int:
    return sum(layer.held_bytes(1, columns) for layer in layers)
