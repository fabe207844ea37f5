"""Write a model's tensors as one safetensors file, holding one tensor in memory at a time."""

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from appliance.engine.convert.block import BITS, GROUP_SIZE, pack_blocks
from appliance.engine.convert.llama import Assignment
from appliance.errors import SourceError

WeightForm = Literal["float32", "packed"]
Report = Callable[[int, int], None]
"""Called with bytes written and bytes in all."""

_Array = npt.NDArray[np.generic]
_DTYPES: dict[str, npt.DTypeLike] = {"F32": "<f4", "F16": "<f2", "U32": "<u4"}
_DENSE = (GGMLQuantizationType.F32, GGMLQuantizationType.F16)
_SUPPORTED = (*_DENSE, *BITS)
_ALIGNMENT = 8


@dataclass(frozen=True)
class _Slot:
    """One array of the output file."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return prod(self.shape) * np.dtype(_DTYPES[self.dtype]).itemsize


class WeightPlan:
    """What the weights file will hold. Building it checks every tensor's type; reads no weights."""

    def __init__(self, source: str, assignments: Sequence[Assignment], form: WeightForm) -> None:
        self._source = source
        self._assignments = assignments
        for each in assignments:
            if each.tensor.type not in _SUPPORTED:
                reason = (
                    f"tensor '{each.tensor.name}' is {each.tensor.type.name}; "
                    f"supported are {', '.join(kind.name for kind in _SUPPORTED)}"
                )
                raise SourceError(source, reason)
        self._is_packed = form == "packed"
        kinds = {each.tensor.type for each in assignments}
        self.is_half = self._is_packed and kinds != {GGMLQuantizationType.F32}
        self._slots = [self._plan(each) for each in assignments]

    @property
    def num_bytes(self) -> int:
        """The size of all arrays together."""
        return sum(slot.num_bytes for slots in self._slots for slot in slots)

    def quantization(self) -> dict[str, object] | None:
        """Return config.json's `quantization`, with the layers that differ; None = all dense."""
        bits = {
            each.name.removesuffix(".weight"): BITS[each.tensor.type]
            for each in self._assignments
            if self._packs(each)
        }
        if not bits:
            return None
        usual = max(BITS.values(), key=list(bits.values()).count)
        others = {
            layer: {"group_size": GROUP_SIZE, "bits": count, "mode": "affine"}
            for layer, count in bits.items()
            if count != usual
        }
        return {"group_size": GROUP_SIZE, "bits": usual, "mode": "affine", **others}

    def write(self, path: Path, report: Report) -> None:
        """Write the file; raises SourceError for numbers float16 cannot hold, OSError."""
        done, total = 0, self.num_bytes
        with path.open("wb") as file:
            file.write(_header(slot for slots in self._slots for slot in slots))
            for each, slots in zip(self._assignments, self._slots, strict=True):
                for slot, array in zip(slots, self._arrays(each), strict=True):
                    file.write(
                        np.ascontiguousarray(array).astype(_DTYPES[slot.dtype], copy=False).data
                    )
                    done += slot.num_bytes
                report(done, total)

    def _packs(self, each: Assignment) -> bool:
        return self._is_packed and each.tensor.type in BITS and len(each.tensor.shape) > 1

    def _plan(self, each: Assignment) -> list[_Slot]:
        shape = each.tensor.shape
        if not self._packs(each):
            return [_Slot(each.name, "F16" if self.is_half else "F32", shape)]
        layer, (rows, columns) = each.name.removesuffix("weight"), shape
        words = columns * BITS[each.tensor.type] // 32
        groups = columns // GROUP_SIZE
        return [
            _Slot(each.name, "U32", (rows, words)),
            _Slot(layer + "scales", "F16", (rows, groups)),
            _Slot(layer + "biases", "F16", (rows, groups)),
        ]

    def _arrays(self, each: Assignment) -> list[_Array]:
        tensor = each.tensor
        rows = tensor.data.reshape(*tensor.shape[:-1], -1)
        with np.errstate(over="ignore", invalid="ignore"):
            if self._packs(each):
                packed = pack_blocks(rows, tensor.type)
                arrays: list[_Array] = [packed.weight, packed.scales, packed.biases]
            else:
                dense = dequantize(rows, tensor.type)
                arrays = [dense.astype(np.float16) if self.is_half else dense]
        if not all(np.isfinite(array).all() for array in arrays):
            raise SourceError(self._source, f"tensor '{tensor.name}' holds numbers out of range")
        return [_restore_rows(array, each.heads) for array in arrays]


def _restore_rows(array: _Array, heads: int) -> _Array:
    """Undo llama.cpp's order of rows: within a head it pairs row i with i + half."""
    if not heads:
        return array
    rest = array.shape[1:]
    return array.reshape(heads, -1, 2, *rest).swapaxes(1, 2).reshape(array.shape)


def _header(slots: Iterable[_Slot]) -> bytes:
    """The head of a safetensors file (format: the safetensors project's README)."""
    entries: dict[str, object] = {"__metadata__": {"format": "mlx"}}
    at = 0
    for slot in slots:
        end = at + slot.num_bytes
        entries[slot.name] = {
            "dtype": slot.dtype,
            "shape": slot.shape,
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text
