"""Forecast what a model will hold in memory, from its settings and the headers of its files."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from appliance.chat.folder import context_tokens, read_object
from appliance.errors import SourceError
from appliance.manifest.source import PathSource, Source
from appliance.manifest.spec import EngineSpec, ModelSpec, resolve_path
from appliance.registry.device import WeightForm, guess_device, weight_form
from appliance.registry.inspection import ModelFacts, inspect_directory

_QUERY_HEADS = ("num_attention_heads", "n_head")
_LANGUAGE_PARTS = ("text_config", "llm_config", "language_config")
# Without a bound by the operator, all sequences together are promised so many tokens.
_OPEN_TOKENS = 32768
# What the engine may keep as buffers for reuse, and steps for their results (see engine.share).
_STEP_BYTES = 2**28
_STEP_SHARE = 8
_MOST_LAYERS = 10_000

Json = Mapping[str, Any]


class FileFinder(Protocol):
    """Knows where a source's files are, without fetching them."""

    def find_cached(self, source: Source, *, folder: Path) -> Path | None:
        """Return the model's folder, None while work is needed to have it."""


@dataclass(frozen=True)
class KvCost:
    """What one token's keys and values take in one layer; `window`: the most tokens it keeps."""

    token_bytes: int
    window: int | None = None


async def forecast(spec: ModelSpec, folder: Path, store: FileFinder) -> int | None:
    """Return the bytes that a model will hold, None before its files are on this disk.

    What `engine.memory` declares goes first, and a script takes nothing. Else it is the weights as
    they are loaded (see device.weight_form), `kv_bytes`, and an eighth of the weights and 256 MiB
    for steps. Files that cannot be understood count as not there: the load says what is wrong with
    them. Relative paths resolve against `folder`. Reads in a thread.
    """
    if spec.engine.memory != "auto":
        return spec.engine.memory
    if spec.is_scripted():
        return 0
    return await asyncio.to_thread(_forecast, spec, folder, store)


def _forecast(spec: ModelSpec, folder: Path, store: FileFinder) -> int | None:
    try:
        directory = _find(spec.parsed_source(), folder, store)
        if directory is None:
            return None
        facts, config = inspect_directory(directory), read_object(directory / "config.json")
    except (OSError, SourceError, AttributeError, LookupError, TypeError, ValueError):
        return None
    form = weight_form(guess_device())
    weights = weight_bytes(facts, form)
    kv = kv_bytes(config, spec.engine, element_bytes(config, form))
    return weights + weights // _STEP_SHARE + _STEP_BYTES + kv


def _find(source: Source, folder: Path, store: FileFinder) -> Path | None:
    if isinstance(source, PathSource) and (path := resolve_path(folder, source.path)).is_dir():
        # The store may yet have to complete it, but with no weights.
        return path
    return store.find_cached(source, folder=folder)


def weight_bytes(facts: ModelFacts, form: WeightForm) -> int:
    """Return what the weights take as they are loaded: dense float32, or as they are stored."""
    if form == "float32":
        return facts.parameters * 4
    return sum(file.size for file in facts.files if file.name.endswith(".safetensors"))


def element_bytes(config: Json, form: WeightForm) -> int:
    """Return what a number in keys and values takes."""
    part = _language_part(config)
    dtype = part.get("dtype") or part.get("torch_dtype") or config.get("torch_dtype")
    return 4 if form == "float32" or dtype == "float32" else 2


def kv_bytes(config: Json, engine: EngineSpec, element: int) -> int:
    """Return the keys and values that are promised: `max_sequences` times the context.

    The context is the model's own or `max_context_tokens`, if that is less. Where the operator
    bounds nothing, the product would promise terabytes to models of long contexts and nothing
    would ever fit; the sequences then share 32768 tokens. The engine takes memory as sequences
    grow, and admits what fits its share.
    """
    rows, own = engine.num_slots, context_tokens(dict(config))
    bound = engine.max_context_tokens or -(-_OPEN_TOKENS // rows)
    tokens = bound if own is None else min(own, bound)
    return rows * sum(
        cost.token_bytes * (tokens if cost.window is None else min(tokens, cost.window))
        for cost in kv_costs(config, element)
    )


def kv_costs(config: Json, element: int) -> Iterator[KvCost]:
    """Yield the cost of each layer that keeps keys and values, as config.json tells it.

    Recurrent layers keep none. Where it does not say which layers slide, all keep everything.
    """
    part = _language_part(config)
    window = _number(part, "sliding_window", "attention_chunk_size") or None
    token = _token_numbers(part, is_part=part is not config) * element
    for kind in _layer_kinds(part):
        if kind != "recurrent" and token:
            yield KvCost(token, window if kind == "sliding" else None)


def _token_numbers(part: Json, *, is_part: bool) -> int:
    """Return how many numbers a layer keeps for a token."""
    if latent := _number(part, "kv_lora_rank"):
        return latent + _number(part, "qk_rope_head_dim")
    queries, width = _number(part, *_QUERY_HEADS), _number(part, "hidden_size", "n_embd")
    if not queries and is_part:
        # Parts of a larger model leave out what is usual for it; none has more than this.
        return 2 * width
    head = _number(part, "head_dim") or width // max(1, queries)
    return 2 * head * _number(part, "num_key_value_heads", *_QUERY_HEADS)


def _layer_kinds(part: Json) -> Iterator[str]:
    count = min(_MOST_LAYERS, _number(part, "num_hidden_layers", "n_layer", "num_layers"))
    types = part.get("layer_types")
    full_every = _number(part, "full_attention_interval", "sliding_window_pattern")
    other = "recurrent" if "full_attention_interval" in part else "sliding"
    for number in range(count):
        if isinstance(types, list) and number < len(types):
            yield _kind(str(types[number]))
        else:
            yield "full" if not full_every or (number + 1) % full_every == 0 else other


def _kind(layer_type: str) -> str:
    if "full" in layer_type or layer_type == "attention":
        return "full"
    is_sliding = "sliding" in layer_type or "chunked" in layer_type
    return "sliding" if is_sliding else "recurrent"


def _language_part(config: Json) -> Json:
    part = next((config[name] for name in _LANGUAGE_PARTS if name in config), config)
    return part if isinstance(part, dict) else config


def _number(part: Json, *keys: str) -> int:
    """Return the first of these that is a whole number, else 0."""
    found = (part.get(key) for key in keys)
    return next((each for each in found if isinstance(each, int) and each > 0), 0)
