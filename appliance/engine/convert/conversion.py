"""Convert one GGUF file into an MLX folder that appears whole or not at all."""

import json
import shutil
from pathlib import Path

from appliance.disk import publish, require_space
from appliance.engine.convert.container import open_container
from appliance.engine.convert.llama import assign_tensors, read_shape
from appliance.engine.convert.setting import generation_config, tokenizer_config
from appliance.engine.convert.tokenizer import build_tokenizer
from appliance.engine.convert.vocabulary import read_vocabulary
from appliance.engine.convert.weight import Report, WeightForm, WeightPlan
from appliance.errors import SourceError

_SPARE_BYTES = 64 * 2**20


def convert(source: Path, dest: Path, form: WeightForm, report: Report) -> None:
    """Write `dest` from the GGUF file `source`; `report` gets bytes written and bytes in all.

    Works in `DEST.partial`, which a run that was killed may have left. Raises SourceError for a
    file that cannot be converted and OSError from writing.
    """
    if dest.exists():
        raise SourceError(source.name, f"{dest} already exists")
    container = open_container(source)
    metadata = container.metadata
    shape = read_shape(container)
    plan = WeightPlan(source.name, assign_tensors(container, shape), form)
    vocabulary = read_vocabulary(metadata)
    if len(vocabulary.tokens) > shape.vocab:
        reason = f"has {len(vocabulary.tokens)} tokens but only {shape.vocab} embeddings"
        raise SourceError(source.name, reason)
    tokenizer = build_tokenizer(metadata, vocabulary)
    ending = generation_config(vocabulary)
    config = shape.config() | ending | {"torch_dtype": "float16" if plan.is_half else "float32"}
    if quantization := plan.quantization():
        config |= {"quantization": quantization, "quantization_config": quantization}

    partial = dest.with_name(dest.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        require_space(source.name, partial, plan.num_bytes + _SPARE_BYTES)
        tokenizer.save(str(partial / "tokenizer.json"), pretty=False)
        _write_json(partial / "config.json", config)
        _write_json(partial / "generation_config.json", ending)
        _write_json(
            partial / "tokenizer_config.json", tokenizer_config(metadata, vocabulary, shape.context)
        )
        plan.write(partial / "model.safetensors", report)
        publish(partial, dest)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
