"""A GGUF file becomes a folder of MLX at one stroke, and a wrong one is refused with the reason."""

import json
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter
from gguf.constants import GGMLQuantizationType as Kind

from appliance.engine.convert.conversion import convert
from appliance.engine.convert.weight import WeightForm
from appliance.errors import SourceError
from tests.engine.convert.tiny_gguf import END, HEAD_DIM, HIDDEN, TinyLlama, tokens


def converted(path: Path, dest: Path, form: WeightForm = "float32") -> Path:
    convert(path, dest, form, lambda done, total: None)
    return dest


def test_conversion_writes_the_settings_beside_the_weights(tmp_path: Path) -> None:
    path = TinyLlama(kind=Kind.Q8_0).write(tmp_path / "tiny.gguf")

    folder = converted(path, tmp_path / "mlx", "packed")

    written = {file.name: json.loads(file.read_text()) for file in folder.glob("*.json")}
    end = len(tokens()) - 1
    assert written["generation_config.json"] == {"eos_token_id": [end]}
    assert written["config.json"]["eos_token_id"] == [end]
    assert written["config.json"]["quantization"]["bits"] == 8
    assert written["tokenizer_config.json"]["eos_token"] == END
    assert written["tokenizer_config.json"]["chat_template"] == "{{ messages[0].content }}"


def test_conversion_reports_bytes_and_shows_the_folder_at_the_end(tmp_path: Path) -> None:
    path = TinyLlama().write(tmp_path / "tiny.gguf")
    dest = tmp_path / "mlx"
    seen: list[tuple[int, int]] = []
    early: list[bool] = []

    def report(done: int, total: int) -> None:
        seen.append((done, total))
        early.append(dest.exists())

    convert(path, dest, "float32", report)

    total = seen[-1][1]
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
    assert {each for _, each in seen} == {total}
    assert not any(early)
    assert 0 < (dest / "model.safetensors").stat().st_size - total < 8192


def test_conversion_clears_what_a_broken_run_left(tmp_path: Path) -> None:
    path = TinyLlama().write(tmp_path / "tiny.gguf")
    left = tmp_path / "mlx.partial"
    left.mkdir()
    (left / "model-00001.safetensors").write_bytes(b"half")

    folder = converted(path, tmp_path / "mlx")

    assert not left.exists()
    assert {file.name for file in folder.iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_conversion_leaves_an_existing_folder_alone(tmp_path: Path) -> None:
    path = TinyLlama().write(tmp_path / "tiny.gguf")
    (tmp_path / "mlx").mkdir()

    with pytest.raises(SourceError, match="already exists"):
        converted(path, tmp_path / "mlx")


ROPE = [1.0] * (HEAD_DIM // 2 - 1) + [3.0]
WIDE = np.zeros((8, HIDDEN), np.float32)
REFUSED = [
    (TinyLlama(kind=Kind.Q5_0), "tensor 'token_embd.weight' is Q5_0; supported are F32, F16,"),
    (TinyLlama(keys={"general.architecture": "mamba"}), "architecture 'mamba' is not supported"),
    (TinyLlama(keys={"llama.expert_count": 8}), "mixtures of experts"),
    (TinyLlama(keys={"llama.block_count": None}), "does not say 'llama.block_count'"),
    (TinyLlama(keys={"llama.block_count": 2**31}), "'llama.block_count' should be"),
    (TinyLlama(keys={"llama.embedding_length": "64"}), "'llama.embedding_length' should be"),
    (TinyLlama(keys={"llama.embedding_length": 2**20}), "'token_embd.weight' has shape"),
    (TinyLlama(keys={"llama.attention.head_count": [4, 4]}), "head_count' should be"),
    (TinyLlama(keys={"llama.rope.dimension_count": 8}), "rotary embedding of a part"),
    (TinyLlama(keys={"llama.rope.scaling.type": "yarn"}), "rotary scaling 'yarn'"),
    (TinyLlama(rope_factors=ROPE), "follows no rule"),
    (TinyLlama(tensors={"token_embd.weight": None}), "'token_embd.weight' is missing"),
    (TinyLlama(tensors={"blk.1.ffn_up.weight": None}), "'blk.1.ffn_up.weight' is missing"),
    (TinyLlama(tensors={"blk.0.extra.weight": WIDE}), "'blk.0.extra.weight' is not supported"),
    (TinyLlama(tensors={"token_embd.weight": WIDE}), "259 tokens but only 8 embeddings"),
    (TinyLlama(tensors={"output_norm.weight": np.full(HIDDEN, np.inf)}), "out of range"),
    (TinyLlama(keys={"tokenizer.ggml.tokens": ["a", "a"]}), "holds a token twice"),
    (TinyLlama(keys={"tokenizer.ggml.merges": ["h x"]}), "merge 'h x' names no token"),
    (TinyLlama(keys={"tokenizer.ggml.model": "rwkv"}), "tokenizer 'rwkv' is not supported"),
]


@pytest.mark.parametrize(("tiny", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_conversion_refuses(tiny: TinyLlama, reason: str, tmp_path: Path) -> None:
    path = tiny.write(tmp_path / "tiny.gguf")

    with pytest.raises(SourceError) as caught:
        converted(path, tmp_path / "mlx")

    assert reason in caught.value.reason
    assert list(tmp_path.iterdir()) == [path]


def test_conversion_refuses_a_vocabulary_without_a_model(tmp_path: Path) -> None:
    path = tmp_path / "empty.gguf"
    writer = GGUFWriter(path, arch="llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()

    with pytest.raises(SourceError, match="does not say 'llama"):
        converted(path, tmp_path / "mlx")
