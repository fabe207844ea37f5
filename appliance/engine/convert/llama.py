"""Answer which MLX model a GGUF file of the Llama family describes: its config, its tensors."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from appliance.engine.convert.container import Container, Tensor
from appliance.engine.convert.metadata import Metadata
from appliance.errors import SourceError

_ROPE_FACTORS = "rope_freqs.weight"
_WIDE = 2**24
# The only numbers that Llama 3.1 and its successors use; the file holds just their result.
_LLAMA3_LOW, _LLAMA3_HIGH, _LLAMA3_CONTEXT = 1.0, 4.0, 8192


@dataclass(frozen=True)
class LlamaShape:
    """The model's sizes; all count elements, `context` counts tokens."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int
    norm_eps: float
    rope_theta: float
    rope_scaling: dict[str, float | str] | None
    is_tied: bool
    has_attention_bias: bool
    has_mlp_bias: bool

    def config(self) -> dict[str, object]:
        """Return the part of config.json that describes the model."""
        config: dict[str, object] = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.context,
            "rms_norm_eps": self.norm_eps,
            "rope_theta": self.rope_theta,
            "hidden_act": "silu",
            "tie_word_embeddings": self.is_tied,
            "attention_bias": self.has_attention_bias,
            "mlp_bias": self.has_mlp_bias,
        }
        return config | ({"rope_scaling": self.rope_scaling} if self.rope_scaling else {})


@dataclass(frozen=True)
class Assignment:
    """A tensor of the file and its name in MLX.

    `heads` over 0: its rows are interleaved per head as llama.cpp's rotary embedding wants them,
    and must be put back.
    """

    tensor: Tensor
    name: str
    heads: int = 0


def read_shape(container: Container) -> LlamaShape:
    """Return the model's sizes; raises SourceError where the file is no plain Llama."""
    metadata, tensors = container.metadata, container.tensors
    wrong = partial(SourceError, metadata.source)
    architecture = metadata.text("general.architecture")
    if architecture != "llama":
        raise wrong(f"architecture '{architecture}' is not supported; supported is llama")
    experts = metadata.values.get("llama.expert_count")
    if isinstance(experts, int) and experts > 0:
        raise wrong("mixtures of experts are not supported")
    size = partial(metadata.integer, maximum=_WIDE)
    hidden, heads = size("llama.embedding_length"), size("llama.attention.head_count")
    head_dim = size("llama.attention.key_length", max(1, hidden // heads))
    if size("llama.rope.dimension_count", head_dim) != head_dim or head_dim % 2:
        raise wrong("rotary embedding of a part of each head is not supported")
    embedding = tensors.get("token_embd.weight")
    if embedding is None:
        raise wrong("tensor 'token_embd.weight' is missing")
    rope_theta = metadata.number("llama.rope.freq_base", 10000.0)
    return LlamaShape(
        layers=metadata.integer("llama.block_count", maximum=len(tensors)),
        hidden=hidden,
        intermediate=size("llama.feed_forward_length"),
        heads=heads,
        kv_heads=size("llama.attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab=embedding.shape[0],
        context=metadata.integer("llama.context_length"),
        norm_eps=metadata.number("llama.attention.layer_norm_rms_epsilon"),
        rope_theta=rope_theta,
        rope_scaling=_rope_scaling(container, head_dim, rope_theta),
        is_tied="output.weight" not in tensors,
        has_attention_bias="blk.0.attn_q.bias" in tensors,
        has_mlp_bias="blk.0.ffn_gate.bias" in tensors,
    )


def assign_tensors(container: Container, shape: LlamaShape) -> list[Assignment]:
    """Return every tensor of the model; raises SourceError for missing, misshapen, unknown ones."""
    assigned, known = [], {_ROPE_FACTORS}
    for theirs, ours, dimensions, heads in _tensors(shape):
        tensor = container.tensors.get(theirs)
        if tensor is None:
            raise SourceError(container.metadata.source, f"tensor '{theirs}' is missing")
        if tensor.shape != dimensions:
            reason = f"tensor '{theirs}' has shape {tensor.shape}, not {dimensions}"
            raise SourceError(container.metadata.source, reason)
        assigned.append(Assignment(tensor, ours, heads))
        known.add(theirs)
    unknown = sorted(container.tensors.keys() - known)
    if unknown:
        raise SourceError(container.metadata.source, f"tensor '{unknown[0]}' is not supported")
    return assigned


def _tensors(shape: LlamaShape) -> Iterator[tuple[str, str, tuple[int, ...], int]]:
    """Yield (GGUF name, MLX name, dimensions, interleaved heads) of each tensor."""
    yield "token_embd.weight", "model.embed_tokens.weight", (shape.vocab, shape.hidden), 0
    for layer in range(shape.layers):
        theirs, ours = f"blk.{layer}.", f"model.layers.{layer}."
        yield theirs + "attn_norm.weight", ours + "input_layernorm.weight", (shape.hidden,), 0
        yield (
            theirs + "ffn_norm.weight",
            ours + "post_attention_layernorm.weight",
            (shape.hidden,),
            0,
        )
        for name, target, rows, columns, heads in _layer_matrices(shape):
            yield f"{theirs}{name}.weight", f"{ours}{target}.weight", (rows, columns), heads
            if shape.has_mlp_bias if target.startswith("mlp") else shape.has_attention_bias:
                yield f"{theirs}{name}.bias", f"{ours}{target}.bias", (rows,), heads
    yield "output_norm.weight", "model.norm.weight", (shape.hidden,), 0
    if not shape.is_tied:
        yield "output.weight", "lm_head.weight", (shape.vocab, shape.hidden), 0


def _layer_matrices(shape: LlamaShape) -> list[tuple[str, str, int, int, int]]:
    hidden, inner = shape.hidden, shape.intermediate
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return [
        ("attn_q", "self_attn.q_proj", queries, hidden, shape.heads),
        ("attn_k", "self_attn.k_proj", keys, hidden, shape.kv_heads),
        ("attn_v", "self_attn.v_proj", keys, hidden, 0),
        ("attn_output", "self_attn.o_proj", hidden, queries, 0),
        ("ffn_gate", "mlp.gate_proj", inner, hidden, 0),
        ("ffn_up", "mlp.up_proj", inner, hidden, 0),
        ("ffn_down", "mlp.down_proj", hidden, inner, 0),
    ]


def _rope_scaling(
    container: Container, head_dim: int, theta: float
) -> dict[str, float | str] | None:
    metadata = container.metadata
    kind = metadata.text("llama.rope.scaling.type", None) or "none"
    if kind == "linear":
        return {"rope_type": "linear", "factor": metadata.number("llama.rope.scaling.factor")}
    if kind != "none":
        raise SourceError(metadata.source, f"rotary scaling '{kind}' is not supported")
    factors = container.tensors.get(_ROPE_FACTORS)
    return _llama3_scaling(metadata, factors, head_dim, theta) if factors else None


def _llama3_scaling(
    metadata: Metadata, tensor: Tensor, head_dim: int, theta: float
) -> dict[str, float | str]:
    """Return the setting that explains the file's own list of factors, one a frequency.

    Llama 3.1's rule: wavelengths under context/high stay, over context/low are stretched by the
    factor, and between them the reciprocals are blended.
    """
    wrong = SourceError(metadata.source, f"tensor '{_ROPE_FACTORS}' follows no rule known here")
    if tensor.type.name != "F32" or tensor.shape != (head_dim // 2,):
        raise wrong
    given = tensor.data.view(np.float32)
    factor = float(given.max())
    with np.errstate(all="ignore"):
        wavelengths = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
        ramp = (_LLAMA3_CONTEXT / wavelengths - _LLAMA3_LOW) / (_LLAMA3_HIGH - _LLAMA3_LOW)
        smooth = np.clip(ramp, 0, 1)
        expected = 1 / ((1 - smooth) / factor + smooth)
    if not np.allclose(given, expected, rtol=1e-3):
        raise wrong
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _LLAMA3_LOW,
        "high_freq_factor": _LLAMA3_HIGH,
        "original_max_position_embeddings": _LLAMA3_CONTEXT,
    }
