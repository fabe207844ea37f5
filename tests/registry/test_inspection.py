import json
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import SourceError
from appliance.registry.inspection import inspect_directory

Tensors = dict[str, tuple[str, list[int], int]]


def write_weights(path: Path, tensors: Tensors) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    offset = 0
    for name, (dtype, shape, num_bytes) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [offset, offset + num_bytes],
        }
        offset += num_bytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(offset))


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def test_inspect_directory_tells_a_dense_model(tmp_path: Path) -> None:
    write_weights(tmp_path / "model.safetensors", {"a.weight": ("F32", [4, 8], 128)})
    write_json(
        tmp_path / "config.json",
        {"model_type": "llama", "architectures": ["L"], "max_position_embeddings": 99},
    )
    write_json(tmp_path / "tokenizer_config.json", {"chat_template": "{{ messages }}"})

    facts = inspect_directory(tmp_path)

    assert (facts.model_type, facts.architecture, facts.context_tokens) == ("llama", "L", 99)
    assert (facts.dtypes, facts.parameters, facts.quantization) == ({"F32": 32}, 32, None)
    assert facts.has_chat_template
    assert facts.total_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_inspect_directory_unpacks_quantised_weights(tmp_path: Path) -> None:
    write_weights(
        tmp_path / "model.safetensors",
        {
            "a.weight": ("U32", [2, 16], 128),
            "a.scales": ("F16", [2, 4], 16),
            "a.biases": ("F16", [2, 4], 16),
            "b.weight": ("U32", [2, 16], 128),
            "b.scales": ("F16", [2, 2], 8),
            "norm.weight": ("F32", [3], 12),
        },
    )
    own = {"bits": 8, "group_size": 32}
    write_json(tmp_path / "config.json", {"quantization": {"bits": 4, "group_size": 32, "b": own}})

    facts = inspect_directory(tmp_path)

    assert facts.parameters == 2 * 128 + 2 * 64 + 3
    assert facts.quantization == "4/8-bit, groups of 32"
    assert list(facts.dtypes) == ["U32", "F16", "F32"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"text_config": {"max_position_embeddings": 7}}, 7),
        ({"vision_config": {"max_position_embeddings": 5}, "text_config": {"n_ctx": 7}}, 7),
        ({"thinker_config": {"text_config": {"max_position_embeddings": 7}}}, 7),
        ({"vision_config": {"max_position_embeddings": 5}}, None),
        ({"n_positions": 7, "max_position_embeddings": None}, 7),
    ],
)
def test_inspect_directory_finds_the_context(
    tmp_path: Path, config: dict[str, Any], expected: int | None
) -> None:
    write_json(tmp_path / "config.json", config)

    assert inspect_directory(tmp_path).context_tokens == expected


def test_inspect_directory_names_missing_shards(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {})
    write_weights(tmp_path / "model-1.safetensors", {})
    shards = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": shards})

    assert inspect_directory(tmp_path).missing_files == ("model-2.safetensors",)


@pytest.mark.parametrize(
    "index",
    [
        {"weight_map": []},
        {"weight_map": {"a": 1}},
        {"weight_map": None},
    ],
)
def test_inspect_directory_refuses_an_index_that_names_no_files(
    tmp_path: Path, index: object
) -> None:
    write_json(tmp_path / "config.json", {})
    write_json(tmp_path / "model.safetensors.index.json", index)

    with pytest.raises(SourceError, match="is not as it should be"):
        inspect_directory(tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((2).to_bytes(8, "little") + b"[]", id="no object"),
        pytest.param((9).to_bytes(8, "little") + b'{"a": {}}', id="no tensor"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff" * 8, id="absurd length"),
        pytest.param((4).to_bytes(8, "little") + b"{nop", id="no header"),
        pytest.param((100).to_bytes(8, "little") + b"{}", id="header cut"),
    ],
)
def test_inspect_directory_refuses_broken_weights(tmp_path: Path, body: bytes) -> None:
    write_json(tmp_path / "config.json", {})
    (tmp_path / "model.safetensors").write_bytes(body)

    with pytest.raises(SourceError, match="not a whole safetensors file"):
        inspect_directory(tmp_path)


def test_inspect_directory_refuses_weights_that_were_cut(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {})
    weights = tmp_path / "model.safetensors"
    write_weights(weights, {"a": ("F32", [4], 16)})
    weights.write_bytes(weights.read_bytes()[:-1])

    with pytest.raises(SourceError, match="not a whole safetensors file"):
        inspect_directory(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "", "[" * 100_000])
def test_inspect_directory_refuses_a_broken_config(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(SourceError, match="JSON"):
        inspect_directory(tmp_path)
