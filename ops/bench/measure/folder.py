"""Make the model folders that are measured: a small real one, and random weights of real shapes."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

from appliance.engine.blas import preload_blas
from appliance.manifest.builtin import load_builtin
from appliance.registry.store import ModelStore

# What of Qwen3's config differs from size to size.
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": 49152,
        "torch_dtype": "float32",
    },
    "qwen3-0.6b": {
        "hidden_size": 1024,
        "num_hidden_layers": 28,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
    },
    "qwen3-8b": {
        "hidden_size": 4096,
        "num_hidden_layers": 36,
        "intermediate_size": 12288,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "tie_word_embeddings": False,
    },
}
COMMON = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "head_dim": 128,
    "vocab_size": 151936,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "eos_token_id": [2],
}
NAMES = ("smollm2", *SHAPES)
_SHARD_BYTES = 4 * 2**30
# The tokenizer's special tokens: rows of zeros in the output layer, so that none is ever likeliest.
_NUM_SPECIAL = 32


def model_folder(name: str, root: Path, tokenizer: Path | None) -> Path:
    """Return the folder of a model below `root`, made there if it is not yet.

    `tokenizer` is a folder with a tokenizer for random weights; None takes the real model's.
    """
    if name == "smollm2":
        return _real_folder(root)
    folder = root / f"random-{name}"
    if not (folder / "tokenizer.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        config = COMMON | SHAPES[name]
        _write_weights(folder, config)
        _write_tokenizer(folder, tokenizer or _real_folder(root), config["vocab_size"])
    return folder


def _real_folder(root: Path) -> Path:
    """Return the built-in manifest's model, dense float32, fetched through the project's store."""
    source = load_builtin().manifest.models[0].parsed_source()
    store = ModelStore(root, form="float32")
    return asyncio.run(
        store.materialise(source, folder=Path(), on_progress=lambda phase, done, total: None)
    )


def _write_weights(folder: Path, config: dict[str, Any]) -> None:
    preload_blas()
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.models import qwen3

    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2]}))
    mx.random.seed(1)
    model = qwen3.Model(qwen3.ModelArgs.from_dict(config))
    model.set_dtype(getattr(mx, config["torch_dtype"]))
    head = model.model.embed_tokens if config["tie_word_embeddings"] else model.lm_head
    head.weight[:_NUM_SPECIAL] = 0
    shard: dict[str, Any] = {}
    number = 0
    for name, array in tree_flatten(model.parameters()):
        if shard and sum(each.nbytes for each in shard.values()) + array.nbytes > _SHARD_BYTES:
            number += 1
            mx.save_safetensors(str(folder / f"model-{number:05}.safetensors"), shard)
            shard = {}
        shard[name] = array
    mx.save_safetensors(
        str(folder / f"model-{number + 1:05}.safetensors"), shard, {"format": "mlx"}
    )


def _write_tokenizer(folder: Path, source: Path, vocab_size: int) -> None:
    """Give every id of the output layer a text, so that every token is something to send."""
    shutil.copy(source / "tokenizer_config.json", folder)
    content = json.loads((source / "tokenizer.json").read_text())
    vocab = content["model"]["vocab"]
    vocab |= {f"\u0120w{number}": number for number in range(len(vocab), vocab_size)}
    # Last, since a folder that has it is complete.
    (folder / "tokenizer.json.new").write_text(json.dumps(content))
    os.replace(folder / "tokenizer.json.new", folder / "tokenizer.json")  # noqa: PTH105
