"""MLX needs a fast BLAS on Linux, and it must be there before any test imports MLX."""

from appliance.engine.blas import preload_blas

preload_blas()
