"""MLX needs a fast BLAS on Linux, and it must be there before any test imports MLX."""

import os

from appliance.engine.blas import preload_blas

# Tests run beside each other: threads that wait for one another's core would only spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

preload_blas()
