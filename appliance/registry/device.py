"""Guess which accelerator MLX will use here, without importing MLX."""

import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Literal

Device = Literal["metal", "cuda", "cpu"]
WeightForm = Literal["float32", "packed"]

_CUDA_PACKAGES = ("mlx-cuda-13", "mlx-cuda-12", "mlx-cuda")
_CUDA_NODE = Path("/dev/nvidiactl")


def guess_device() -> Device:
    """Return what MLX will run on, from the platform and the installed MLX packages."""
    if sys.platform == "darwin":
        return "metal" if platform.machine() == "arm64" else "cpu"
    if _CUDA_NODE.exists() and any(_is_installed(name) for name in _CUDA_PACKAGES):
        return "cuda"
    return "cpu"


def weight_form(device: Device) -> WeightForm:
    """Return how converted weights are stored: dense where quantised matmul is slow."""
    return "float32" if device == "cpu" else "packed"


def _is_installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True
