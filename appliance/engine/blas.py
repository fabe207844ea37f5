"""Give MLX's CPU backend a fast BLAS on Linux."""

import contextlib
import ctypes
import sys

_LIBRARY = "libopenblas.so.0"


def preload_blas() -> None:
    """Load OpenBLAS where MLX finds its symbols; call before the first import of mlx.

    MLX's CPU wheel for Linux ships a reference BLAS some 70 times slower. Silently does nothing
    on other platforms and where the library is not installed.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            ctypes.CDLL(_LIBRARY, ctypes.RTLD_GLOBAL)
