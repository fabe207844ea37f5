import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from appliance.manifest.source import Source
from appliance.manifest.spec import EngineSpec, ModelSpec
from appliance.registry.device import guess_device, weight_form
from appliance.registry.forecast import KvCost, element_bytes, forecast, kv_bytes, kv_costs
from tests.registry.test_inspection import write_json, write_weights

LLAMA: dict[str, Any] = {
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
AUTO = EngineSpec()
FULL = KvCost(2 * 2 * 8 * 2)


class Shelf:
    """A store in which everything is, or nothing."""

    def __init__(self, found: Path | None) -> None:
        self._found = found

    def find_cached(self, source: Source, *, folder: Path) -> Path | None:
        return self._found


def size_of(spec: ModelSpec, found: Path | None = None, folder: Path | None = None) -> int | None:
    return asyncio.run(forecast(spec, folder or Path(), Shelf(found)))


def spec_of(source: str, engine: EngineSpec = AUTO) -> ModelSpec:
    return ModelSpec(name="a", source=source, engine=engine)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    write_json(folder / "config.json", LLAMA)
    write_weights(folder / "model.safetensors", {"a": ("BF16", [1024, 1024], 2 * 2**20)})
    return folder


def test_forecast_is_what_the_operator_declares() -> None:
    assert size_of(spec_of("hf:org/name", EngineSpec(memory=7))) == 7
    assert size_of(spec_of("scripted:a.yaml", EngineSpec(memory=7))) == 7


def test_forecast_of_a_script_is_nothing() -> None:
    assert size_of(spec_of("scripted:a.yaml")) == 0


def test_forecast_is_unknown_before_the_files_are_there() -> None:
    assert size_of(spec_of("hf:org/name")) is None
    assert size_of(spec_of("path:nowhere")) is None


def test_forecast_is_unknown_where_files_cannot_be_understood(model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"no weights")

    assert size_of(spec_of("hf:org/name"), model) is None


def test_forecast_adds_weights_keys_and_values_and_room_for_steps(model: Path) -> None:
    is_dense = weight_form(guess_device()) == "float32"
    weights = 4 * 2**20 if is_dense else (model / "model.safetensors").stat().st_size
    kv = 3 * 100 * 2 * FULL.token_bytes * (2 if is_dense else 1)
    spec = spec_of("hf:org/name", EngineSpec(max_sequences=3, max_context_tokens=100))

    assert size_of(spec, model) == weights + weights // 8 + 2**28 + kv


def test_forecast_looks_into_a_folder_that_is_not_complete_yet(model: Path) -> None:
    spec = spec_of("path:model")

    assert size_of(spec, folder=model.parent) == size_of(spec, model) is not None


@pytest.mark.parametrize(
    ("engine", "tokens"),
    [
        pytest.param(EngineSpec(max_context_tokens=1000), 32 * 1000, id="bound"),
        pytest.param(EngineSpec(max_context_tokens=9999), 32 * 4096, id="model is shorter"),
        pytest.param(EngineSpec(), 32768, id="open"),
        pytest.param(EngineSpec(max_sequences=2), 2 * 4096, id="open, but the model is shorter"),
        pytest.param(EngineSpec(kind="simple"), 4096, id="one at a time"),
    ],
)
def test_kv_is_for_all_sequences_and_their_context(engine: EngineSpec, tokens: int) -> None:
    assert kv_bytes(LLAMA, engine, 2) == tokens * 2 * FULL.token_bytes


def test_kv_of_sliding_layers_ends_at_the_window() -> None:
    config = LLAMA | {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64}

    promised = kv_bytes(config, EngineSpec(max_sequences=1, max_context_tokens=1000), 2)

    assert promised == (64 + 1000) * FULL.token_bytes


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, [FULL] * 2, id="all full"),
        pytest.param({"head_dim": 16}, [KvCost(128)] * 2, id="head size"),
        pytest.param({"num_key_value_heads": None}, [KvCost(256)] * 2, id="no groups"),
        pytest.param({"kv_lora_rank": 10, "qk_rope_head_dim": 6}, [KvCost(32)] * 2, id="latent"),
        pytest.param({"sliding_window": 9}, [FULL] * 2, id="window that nothing uses"),
        pytest.param(
            {"sliding_window": 9, "sliding_window_pattern": 2},
            [KvCost(FULL.token_bytes, 9), FULL],
            id="pattern",
        ),
        pytest.param({"full_attention_interval": 2}, [FULL], id="hybrid"),
        pytest.param({"layer_types": ["linear_attention", "full_attention"]}, [FULL], id="types"),
        pytest.param({"layer_types": ["conv", "mamba"]}, [], id="recurrent"),
        pytest.param({"num_attention_heads": None, "num_key_value_heads": None}, [], id="headless"),
        pytest.param({"text_config": {}}, [], id="empty part"),
        pytest.param({"text_config": LLAMA | {"num_hidden_layers": 1}}, [FULL], id="part"),
        pytest.param(
            {"text_config": {"num_hidden_layers": 1, "hidden_size": 8}}, [KvCost(32)], id="silent"
        ),
    ],
)
def test_kv_costs_follow_the_config(changes: dict[str, Any], expected: list[KvCost]) -> None:
    assert list(kv_costs(LLAMA | changes, 2)) == expected


@pytest.mark.parametrize("text", ["[]", '{"text_config": 3}', '{"num_hidden_layers": "two"}'])
def test_kv_costs_survive_an_odd_config(text: str) -> None:
    config = json.loads(text)

    assert list(kv_costs(config if isinstance(config, dict) else {}, 2)) == []


def test_elements_are_wide_where_weights_are() -> None:
    assert element_bytes(LLAMA, "packed") == 2
    assert element_bytes(LLAMA, "float32") == 4
    assert element_bytes({"text_config": {"dtype": "float32"}}, "packed") == 4


@pytest.mark.parametrize(
    "odd",
    [{"quantization": "q8"}, {"quantization": {"bits": [1]}}, {"num_hidden_layers": {}}],
    ids=["no mapping", "a list", "no number"],
)
def test_config_that_makes_no_sense_is_no_reason_to_fail(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    write_json(tmp_path / "config.json", LLAMA | odd)

    size = size_of(spec_of(f"path:{tmp_path}"), tmp_path)

    assert size is None or size > 0
