"""MLX needs a fast BLAS on Linux, and it must be there before the first import."""

from appliance.engine.blas import preload_blas

preload_blas()
