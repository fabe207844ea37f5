"""Say what a model directory holds, from its small files and the headers of its weights."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from appliance.chat.folder import context_tokens
from appliance.errors import SourceError

_MAX_HEADER_BYTES = 100 * 2**20
_MAX_JSON_BYTES = 256 * 2**20
_INDEX = "model.safetensors.index.json"
_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")

Json = Mapping[str, Any]


@dataclass(frozen=True)
class FileFacts:
    """One file: its path below the directory, and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class ModelFacts:
    """What a model directory holds.

    `dtypes` counts stored elements by the safetensors name of their type, most first.
    `parameters` counts weights as the model sees them: packed ones unpacked, without scales.
    None and empty mean: the files do not say.
    """

    directory: Path
    files: tuple[FileFacts, ...]
    missing_files: tuple[str, ...]
    architecture: str | None
    model_type: str | None
    dtypes: dict[str, int]
    parameters: int
    context_tokens: int | None
    quantization: str | None
    has_chat_template: bool

    @property
    def total_bytes(self) -> int:
        """Return the size of all files together."""
        return sum(file.size for file in self.files)


class _Index(msgspec.Struct):
    weight_map: dict[str, str] = {}


class _Tensor(msgspec.Struct):
    dtype: str
    shape: list[Annotated[int, msgspec.Meta(ge=0)]]
    data_offsets: tuple[int, int]


def inspect_directory(directory: Path) -> ModelFacts:
    """Return the facts; reads no weights. Raises SourceError where a file cannot be understood."""
    config = _read_json(directory / "config.json")
    if config is None:
        raise SourceError(str(directory), "is no model folder: it has no config.json")
    tensors = dict(_read_tensors(directory))
    dtypes: Counter[str] = Counter()
    for tensor in tensors.values():
        dtypes[tensor.dtype] += math.prod(tensor.shape)
    architectures = config.get("architectures") or [None]
    return ModelFacts(
        directory=directory,
        files=_list_files(directory),
        missing_files=missing_shards(directory),
        architecture=architectures[0],
        model_type=config.get("model_type"),
        dtypes=dict(dtypes.most_common()),
        parameters=_count_parameters(tensors, _quantization(config)),
        context_tokens=context_tokens(dict(config)),
        quantization=_describe_quantization(_quantization(config)),
        has_chat_template=_has_chat_template(directory),
    )


def missing_shards(directory: Path) -> tuple[str, ...]:
    """Return the weight files that the directory's index names and that are not there."""
    index = _read_json(directory / _INDEX)
    if index is None:
        return ()
    try:
        shards = msgspec.convert(index, type=_Index).weight_map.values()
    except msgspec.ValidationError as error:
        raise SourceError(str(directory / _INDEX), f"is not as it should be: {error}") from error
    return tuple(name for name in sorted(set(shards)) if not (directory / name).is_file())


def _list_files(directory: Path) -> tuple[FileFacts, ...]:
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return tuple(
        FileFacts(path.relative_to(directory).as_posix(), path.stat().st_size) for path in paths
    )


def _read_json(path: Path) -> Json | None:
    if not path.is_file():
        return None
    if path.stat().st_size > _MAX_JSON_BYTES:
        raise SourceError(str(path), "is too large to be a settings file")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SourceError(str(path), "is not JSON") from error
    if not isinstance(value, dict):
        raise SourceError(str(path), "should hold a JSON object")
    return value


def _read_tensors(directory: Path) -> Iterator[tuple[str, _Tensor]]:
    for path in sorted(directory.glob("*.safetensors")):
        yield from _read_header(path).items()


def _read_header(path: Path) -> dict[str, _Tensor]:
    # Eight bytes of length, little-endian, then that much JSON, as the safetensors format says.
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= min(_MAX_HEADER_BYTES, path.stat().st_size):
            raise SourceError(str(path), "is not a whole safetensors file")
        try:
            entries = msgspec.json.decode(stream.read(length), type=dict[str, msgspec.Raw])
            entries.pop("__metadata__", None)
            header = {
                name: msgspec.json.decode(entry, type=_Tensor) for name, entry in entries.items()
            }
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SourceError(str(path), "is not a whole safetensors file") from error
    ends = [tensor.data_offsets[1] for tensor in header.values()]
    if path.stat().st_size != 8 + length + max(ends, default=0):
        raise SourceError(str(path), "is not a whole safetensors file")
    return header


def _quantization(config: Json) -> Json:
    return config.get("quantization") or config.get("quantization_config") or {}


def _count_parameters(tensors: Mapping[str, _Tensor], quantization: Json) -> int:
    total = 0
    for name, tensor in tensors.items():
        module, _, leaf = name.rpartition(".")
        scales = tensors.get(f"{module}.scales")
        if scales is None:
            total += math.prod(tensor.shape)
        elif leaf == "weight":
            total += math.prod(scales.shape) * _group_size(quantization, module)
    return total


def _group_size(quantization: Json, module: str) -> int:
    own = quantization.get(module)
    settings = own if isinstance(own, dict) else quantization
    size: int = settings.get("group_size") or quantization.get("group_size") or 1
    return size


def _describe_quantization(quantization: Json) -> str | None:
    if "bits" not in quantization:
        method: str | None = quantization.get("quant_method")
        return method
    bits = {
        settings["bits"]
        for settings in (quantization, *quantization.values())
        if isinstance(settings, dict) and "bits" in settings
    }
    mixed = "/".join(str(number) for number in sorted(bits))
    return f"{mixed}-bit, groups of {quantization.get('group_size', '?')}"


def _has_chat_template(directory: Path) -> bool:
    if any((directory / name).is_file() for name in _TEMPLATE_FILES):
        return True
    return bool((_read_json(directory / "tokenizer_config.json") or {}).get("chat_template"))
