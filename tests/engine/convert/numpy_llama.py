"""Compute a Llama's logits with numpy, straight from the GGUF file in its own row order."""

from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray

Array = NDArray[np.float32]


class NumpyLlama:
    """A second opinion that shares no code with the conversion: gguf's reader, plain formulas."""

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self._keys = {name: field.contents() for name, field in reader.fields.items()}
        self._tensors = {
            tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors
        }

    def logits(self, ids: list[int]) -> Array:
        """Return the logits after every position: (positions, vocabulary)."""
        x = self._tensors["token_embd.weight"][ids]
        for layer in range(self._keys["llama.block_count"]):
            x = x + self._attention(f"blk.{layer}.", self._norm(x, f"blk.{layer}.attn_norm"))
            x = x + self._mlp(f"blk.{layer}.", self._norm(x, f"blk.{layer}.ffn_norm"))
        head = self._tensors.get("output.weight", self._tensors["token_embd.weight"])
        logits: Array = self._norm(x, "output_norm") @ head.T
        return logits

    def _attention(self, at: str, x: Array) -> Array:
        heads = self._keys["llama.attention.head_count"]
        groups = heads // self._keys["llama.attention.head_count_kv"]
        q, k, v = (self._linear(x, f"{at}attn_{name}") for name in "qkv")
        q, k, v = (each.reshape(len(x), -1, q.shape[-1] // heads) for each in (q, k, v))
        q, k = self._rotate(q), self._rotate(k).repeat(groups, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        scores += np.triu(np.full((len(x), len(x)), -np.inf, np.float32), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", weights, v.repeat(groups, axis=1))
        return self._linear(mixed.reshape(len(x), -1), f"{at}attn_output")

    def _rotate(self, x: Array) -> Array:
        """Rotate neighbours (2i, 2i + 1) of each head, as llama.cpp does for this family."""
        size = x.shape[-1]
        frequencies = self._keys["llama.rope.freq_base"] ** (-np.arange(0, size, 2) / size)
        frequencies = frequencies / self._tensors.get("rope_freqs.weight", 1.0)
        angles = np.arange(len(x))[:, None, None] * frequencies
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = np.empty_like(x)
        turned[..., 0::2] = even * np.cos(angles) - odd * np.sin(angles)
        turned[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
        return turned

    def _mlp(self, at: str, x: Array) -> Array:
        gate = self._linear(x, f"{at}ffn_gate")
        gate = gate / (1 + np.exp(-gate))
        return self._linear(gate * self._linear(x, f"{at}ffn_up"), f"{at}ffn_down")

    def _linear(self, x: Array, name: str) -> Array:
        bias = self._tensors.get(f"{name}.bias", 0.0)
        product: Array = x @ self._tensors[f"{name}.weight"].T + bias
        return product

    def _norm(self, x: Array, name: str) -> Array:
        epsilon = self._keys["llama.attention.layer_norm_rms_epsilon"]
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
        normed: Array = x / scale * self._tensors[f"{name}.weight"]
        return normed
