"""Write a tiny random Llama as a GGUF file, with whatever a test wants to be different."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType
from gguf.constants import GGMLQuantizationType
from gguf.quants import quantize
from tokenizers.pre_tokenizers import ByteLevel

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, LAYERS = 64, 96, 4, 2, 16, 2
END = "<|im_end|>"


@dataclass
class TinyLlama:
    """What to write; `keys` and `tensors` change or (None) leave out what is there otherwise."""

    kind: GGMLQuantizationType = GGMLQuantizationType.F32
    is_tied: bool = True
    has_bias: bool = False
    rope_factors: list[float] | None = None
    keys: dict[str, object] = field(default_factory=dict)
    tensors: dict[str, np.ndarray | None] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        """Write the file and return its path."""
        writer = GGUFWriter(path, arch=str(self.keys.get("general.architecture", "llama")))
        for key, value in (_keys() | self.keys).items():
            _add_key(writer, key, value)
        for name, array in (self._tensors() | self.tensors).items():
            if array is not None:
                kind = self.kind if array.ndim > 1 else GGMLQuantizationType.F32
                writer.add_tensor(name, quantize(array, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def _tensors(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(7)
        shapes = {"token_embd.weight": (len(tokens()), HIDDEN), "output_norm.weight": (HIDDEN,)}
        for layer in range(LAYERS):
            shapes |= {f"blk.{layer}.{name}": shape for name, shape in _layer().items()}
        if not self.has_bias:
            shapes = {name: shape for name, shape in shapes.items() if "bias" not in name}
        if not self.is_tied:
            shapes["output.weight"] = (len(tokens()), HIDDEN)
        made = {name: rng.normal(0, 0.2, shape) for name, shape in shapes.items()}
        if self.rope_factors:
            made["rope_freqs.weight"] = np.array(self.rope_factors)
        # Rounded to what float16 can hold, since packed folders keep norms so.
        return {name: array.astype(np.float16).astype(np.float32) for name, array in made.items()}


def tokens() -> list[str]:
    """Return a byte-level vocabulary: the alphabet, two merged tokens, one control token."""
    return [*sorted(ByteLevel.alphabet()), "he", "hel", END]


def _layer() -> dict[str, tuple[int, ...]]:
    matrices = {
        "attn_q": (HEADS * HEAD_DIM, HIDDEN),
        "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN),
        "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN),
        "attn_output": (HIDDEN, HEADS * HEAD_DIM),
        "ffn_gate": (INNER, HIDDEN),
        "ffn_up": (INNER, HIDDEN),
        "ffn_down": (HIDDEN, INNER),
    }
    shapes: dict[str, tuple[int, ...]] = {"attn_norm.weight": (HIDDEN,)}
    shapes["ffn_norm.weight"] = (HIDDEN,)
    shapes |= {f"{name}.weight": shape for name, shape in matrices.items()}
    return shapes | {f"{name}.bias": shape[:1] for name, shape in matrices.items()}


def _keys() -> dict[str, object]:
    types = [TokenType.NORMAL] * (len(tokens()) - 1) + [TokenType.CONTROL]
    return {
        "llama.block_count": LAYERS,
        "llama.context_length": 128,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens(),
        "tokenizer.ggml.token_type": [int(kind) for kind in types],
        "tokenizer.ggml.merges": ["h e", "he l"],
        "tokenizer.ggml.eos_token_id": len(tokens()) - 1,
        "tokenizer.chat_template": "{{ messages[0].content }}",
    }


def _add_key(writer: GGUFWriter, key: str, value: object) -> None:
    match value:
        case None:
            return
        case _ if key == "general.architecture":
            return
        case str():
            writer.add_string(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case list():
            writer.add_array(key, value)
