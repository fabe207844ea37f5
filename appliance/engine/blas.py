"""Give MLX's CPU backend a fast BLAS on Linux."""

import ctypes
import sys

_LIBRARY = "libopenblas.so.0"


def preload_blas() -> bool:
    """Load OpenBLAS where MLX finds its symbols, and say whether it did.

    Call before the first import of mlx: its CPU wheel for Linux ships a reference BLAS some 70
    times slower. Does nothing on other platforms and where the library is not installed.
    """
    if sys.platform != "linux":
        return False
    try:
        ctypes.CDLL(_LIBRARY, ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True
