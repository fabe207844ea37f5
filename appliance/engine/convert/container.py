"""Read a GGUF file's metadata and find its tensors, trusting no length that the file claims.

The format is that of the ggml project (docs/gguf.md there), versions 2 and 3, little-endian. The
`gguf` package supplies its constants; its reader is not used, because it takes a minute for a
vocabulary of 260 000 tokens and checks no length of a damaged file.
"""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

from appliance.engine.convert.metadata import Metadata, MetadataValue
from appliance.errors import SourceError

_T = TypeVar("_T")

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_DIMENSIONS = 4
_MAX_ALIGNMENT = 2**20
_MIN_ENTRY_BYTES = 12
_MIN_TEXT_BYTES = 8
_SCALARS = {
    GGUFValueType.UINT8: "u1",
    GGUFValueType.INT8: "i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


@dataclass(frozen=True)
class Tensor:
    """One tensor of the file: `shape` has rows first, `data` is a read-only view of its bytes."""

    name: str
    shape: tuple[int, ...]
    type: GGMLQuantizationType
    data: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Container:
    """A GGUF file, open: all metadata, and every tensor by its name, in the file's order."""

    metadata: Metadata
    tensors: dict[str, Tensor]


def open_container(path: Path) -> Container:
    """Map the file and read its header; raises SourceError for anything that is not whole GGUF."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise SourceError(path.name, f"cannot be read: {error}") from error
    if data[: len(_MAGIC)] != _MAGIC:
        raise SourceError(path.name, "is not a GGUF file")
    try:
        return _Header(data, path.name).read()
    except struct.error as error:
        raise SourceError(path.name, "is cut short or damaged") from error
    except UnicodeDecodeError as error:
        raise SourceError(path.name, "is damaged: a text in it is not UTF-8") from error
    except ValueError as error:
        raise SourceError(path.name, f"is damaged: {error}") from error


@dataclass(frozen=True)
class _Place:
    shape: tuple[int, ...]
    type: GGMLQuantizationType
    offset: int


class _Header:
    """A cursor over the header: struct.error past the end of the file, ValueError on nonsense."""

    def __init__(self, data: mmap.mmap, source: str) -> None:
        self._data = data
        self._source = source
        self._at = len(_MAGIC)

    def read(self) -> Container:
        version = self._count(_U32)
        if version not in _VERSIONS:
            raise ValueError(f"version {version} is not one of {_VERSIONS}")
        num_tensors, num_keys = self._count(_U64), self._count(_U64)
        metadata = Metadata(self._source, self._entries(num_keys, self._value))
        places = self._entries(num_tensors, self._place)
        alignment = metadata.integer("general.alignment", 32, maximum=_MAX_ALIGNMENT)
        start = -(-self._at // alignment) * alignment
        return Container(metadata, {k: self._tensor(k, v, start) for k, v in places.items()})

    def _entries(self, count: int, read: Callable[[], _T]) -> dict[str, _T]:
        self._require(count * _MIN_ENTRY_BYTES)
        found: dict[str, _T] = {}
        for _ in range(count):
            name = self._text()
            if name in found:
                raise ValueError(f"'{name}' occurs twice")
            found[name] = read()
        return found

    def _value(self) -> MetadataValue:
        kind = GGUFValueType(self._count(_U32))
        if kind == GGUFValueType.STRING:
            return self._text()
        if kind != GGUFValueType.ARRAY:
            value: MetadataValue = self._numbers(kind, 1)[0].item()
            return value
        kind, length = GGUFValueType(self._count(_U32)), self._count(_U64)
        if kind != GGUFValueType.STRING:
            return self._numbers(kind, length)
        self._require(length * _MIN_TEXT_BYTES)
        return [self._text() for _ in range(length)]

    def _place(self) -> _Place:
        num_dimensions = self._count(_U32)
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            raise ValueError(f"a tensor of {num_dimensions} dimensions")
        shape = tuple(self._count(_U64) for _ in range(num_dimensions))
        return _Place(shape[::-1], GGMLQuantizationType(self._count(_U32)), self._count(_U64))

    def _tensor(self, name: str, place: _Place, start: int) -> Tensor:
        block, block_bytes = GGML_QUANT_SIZES[place.type]
        if 0 in place.shape or place.shape[-1] % block:
            raise ValueError(f"'{name}' of shape {place.shape} cannot be {place.type.name}")
        self._at = start + place.offset
        size = prod(place.shape) // block * block_bytes
        self._require(size)
        data = np.frombuffer(self._data, np.uint8, size, self._at)
        return Tensor(name, place.shape, place.type, data)

    def _text(self) -> str:
        length = self._count(_U64)
        self._require(length)
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def _numbers(self, kind: GGUFValueType, count: int) -> npt.NDArray[np.generic]:
        if kind not in _SCALARS:
            raise ValueError("a list of lists")
        dtype = np.dtype(_SCALARS[kind])
        self._require(count * dtype.itemsize)
        numbers: npt.NDArray[np.generic] = np.frombuffer(self._data, dtype, count, self._at)
        self._at += count * dtype.itemsize
        return numbers

    def _count(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(value)

    def _require(self, num_bytes: int) -> None:
        if num_bytes > len(self._data) - self._at:
            raise struct.error
