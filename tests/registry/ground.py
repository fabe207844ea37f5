"""Stores, archives and small steps that the registry's tests share."""

import asyncio
import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from appliance.manifest.source import parse_source
from appliance.registry.store import ModelStore

NAME = "weights_in_a_box"
CONFIG = b'{"model_type": "llama"}'
MODEL = {"model/config.json": CONFIG, "model/tokenizer.json": b"{}"}


def ignore_progress(phase: str, done: int, total: int) -> None:
    """Most tests do not look."""


def materialise(store: ModelStore, text: str, folder: Path | None = None) -> Path:
    """Return the ready directory of a source text."""
    return asyncio.run(start(store, text, folder))


async def start(store: ModelStore, text: str, folder: Path | None = None) -> Path:
    """As `materialise`, for tests with a loop of their own."""
    source = parse_source(text)
    return await store.materialise(source, folder=folder or Path(), on_progress=ignore_progress)


def hub_store(state_dir: Path, endpoint: str, **environment: str) -> ModelStore:
    """Return a store whose children know only the hub at `endpoint`."""
    hub = {"HF_ENDPOINT": endpoint, "HF_HOME": str(state_dir / "hf")}
    return ModelStore(state_dir, environment=os.environ | hub | environment)


def shelf_store(state_dir: Path, shelf: Path) -> ModelStore:
    """Return a store whose children get packages from the folder `shelf` and nowhere else."""
    local = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf), "PIP_CONFIG_FILE": os.devnull}
    return ModelStore(state_dir, form="float32", environment=os.environ | local)


def write_wheel(shelf: Path, files: Mapping[str, bytes], version: str = "1.0") -> Path:
    """Write a wheel that pip accepts, with these files beside its metadata."""
    path = shelf / f"{NAME}-{version}-py3-none-any.whl"
    folder = f"{NAME}-{version}.dist-info"
    about = {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/RECORD": "",
    }
    shelf.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, text in about.items():
            zipped.writestr(name, text)
        for name, body in files.items():
            zipped.writestr(name, body)
    return path


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a source archive with exactly these names."""
    with tarfile.open(path, "w:gz") as tar:
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return path


def sha256(path: Path) -> str:
    """Return a file's digest as hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
