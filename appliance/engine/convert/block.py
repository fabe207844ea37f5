"""Take GGUF's quantised blocks apart and pack them as MLX stores affine quantisation. Pure.

A block holds 32 neighbours of a row: w = scale * q + bias. Layouts: ggml's `ggml-common.h` and
MLX's documentation of `quantize` (fields of 32-bit words, the first value in the lowest bits).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gguf.constants import GGMLQuantizationType

GROUP_SIZE = 32
BITS = {
    GGMLQuantizationType.Q4_0: 4,
    GGMLQuantizationType.Q4_1: 4,
    GGMLQuantizationType.Q8_0: 8,
}
"""The block types that MLX can hold bit for bit, and the bits of each weight."""

_Halves = npt.NDArray[np.float16]


@dataclass(frozen=True)
class PackedMatrix:
    """`weight` (rows, columns * bits / 32), `scales` and `biases` (rows, columns / 32)."""

    weight: npt.NDArray[np.uint32]
    scales: _Halves
    biases: _Halves


def pack_blocks(blocks: npt.NDArray[np.uint8], kind: GGMLQuantizationType) -> PackedMatrix:
    """Return the same numbers in MLX's layout; `blocks` is (rows, bytes of a row).

    Biases that float16 cannot hold come out infinite.
    """
    rows = len(blocks)
    if kind == GGMLQuantizationType.Q4_1:
        cells = blocks.reshape(rows, -1, 20)
        scales, biases = _half(cells, 0), _half(cells, 2)
        values = _nibbles(cells[..., 4:])
    elif kind == GGMLQuantizationType.Q4_0:
        cells = blocks.reshape(rows, -1, 18)
        scales = _half(cells, 0)
        biases = scales * np.float16(-8)
        values = _nibbles(cells[..., 2:])
    else:
        cells = blocks.reshape(rows, -1, 34)
        scales = _half(cells, 0)
        biases = scales * np.float16(-128)
        values = cells[..., 2:] ^ np.uint8(0x80)
    weight = np.ascontiguousarray(values).reshape(rows, -1).view("<u4")
    return PackedMatrix(weight, scales, biases)


def _half(cells: npt.NDArray[np.uint8], at: int) -> _Halves:
    return np.ascontiguousarray(cells[..., at : at + 2]).view("<f2")[..., 0]


def _nibbles(cells: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Reorder half-bytes: ggml pairs value i with i + 16, MLX pairs 2i with 2i + 1."""
    values = np.concatenate([cells & 15, cells >> 4], axis=-1)
    paired: npt.NDArray[np.uint8] = values[..., 0::2] | values[..., 1::2] << 4
    return paired
