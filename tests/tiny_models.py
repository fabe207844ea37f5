"""Tiny random language models as folders on disk, one for each kind of cache and layer."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map

from tests.chat.tiny import write_model
from tests.packages import smollm2_directory

VOCAB_SIZE = 258
# Weights this much larger than usual make the answer depend sharply on every prompt token.
_SHARPNESS = 4.0

_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}
_OWN: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "gemma3_text": {
        "num_hidden_layers": 4,
        "sliding_window": 8,
        "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 16,
    },
    "mamba2": {
        "num_heads": 6,
        "head_dim": 16,
        "state_size": 16,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "layer_norm_epsilon": 1e-5,
        "time_step_limit": [0.0, 100.0],
        "time_step_rank": "auto",
    },
    "qwen3_moe": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 32,
        "norm_topk_prob": True,
    },
    # Each layer has both a recurrent state and keys and values.
    "falcon_h1": {
        "mamba_d_head": 8,
        "mamba_d_ssm": 48,
        "mamba_d_state": 8,
        "mamba_n_heads": 6,
        "mamba_chunk_size": 16,
    },
    # Its chunked caches cannot be merged, so it is served one request at a time.
    "llama4": {
        "text_config": {
            "model_type": "llama4_text",
            "attention_bias": False,
            "attention_chunk_size": 32,
            "interleave_moe_layer_step": 1,
            "intermediate_size_mlp": 96,
            "num_experts_per_tok": 1,
            "num_local_experts": 2,
            "rope_scaling": None,
            "use_qk_norm": True,
            **_COMMON,
            "num_hidden_layers": 4,
        }
    },
}
ARCHITECTURES = tuple(_OWN)


def write_tiny_model(
    folder: Path, architecture: str, eos_token_id: int | None = None, **changes: int
) -> Path:
    """Write a float32 model of `architecture` with a byte tokenizer and return its folder.

    `changes` replace dimensions in its config.
    """
    write_model(folder)
    config = {"model_type": architecture, **_COMMON, **_OWN[architecture], **changes}
    (folder / "config.json").write_text(json.dumps(config))
    if eos_token_id is not None:
        text = json.dumps({"eos_token_id": eos_token_id})
        (folder / "generation_config.json").write_text(text)
    module = importlib.import_module(f"mlx_lm.models.{architecture}")
    mx.random.seed(7)
    model = module.Model(module.ModelArgs.from_dict(config))
    weights = tree_map(_sharpen, model.parameters())
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(weights)))
    return folder


def write_worded_model(folder: Path) -> Path:
    """Write a tiny llama with SmolLM2's vocabulary, template and context, and return its folder.

    It reads as a real model reads, and at once; what it answers means nothing.
    """
    real = smollm2_directory()
    config = json.loads((real / "config.json").read_text())
    names = ("vocab_size", "max_position_embeddings")
    write_tiny_model(folder, "llama", **{name: config[name] for name in names})
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(real / file, folder / file)
    return folder


def _sharpen(weight: mx.array) -> mx.array:
    """Scale matrices only: a larger decay would make a recurrent layer forget its prompt."""
    return weight.astype(mx.float32) * (_SHARPNESS if weight.ndim > 1 else 1.0)
