"""Say what MLX can do here, as one JSON line: run as `python -m appliance.engine.probe`."""

import json
import sys
from importlib.metadata import version

from appliance.engine.blas import preload_blas

# Metal's, CUDA's, and Metal's for the whole machine.
_MEMORY_KEYS = ("max_recommended_working_set_size", "total_memory", "memory_size")


def main() -> int:
    """Write `{"version", "device", "has_openblas", "memory_bytes"}`, or `{"error"}` and return 1.

    `memory_bytes`: what the device can give, on Metal its recommended working set; 0 = unknown.
    """
    has_openblas = preload_blas()
    try:
        import mlx.core as mx  # noqa: PLC0415 - a missing or broken MLX is what is asked about

        mx.eval(mx.ones((2, 2)) @ mx.ones((2, 2)))
    except (ImportError, OSError, RuntimeError) as error:
        return _write({"error": " ".join(str(error).split())}) or 1
    known = mx.device_info(mx.default_device())
    facts: dict[str, object] = {
        "version": version("mlx"),
        "device": "cpu" if mx.default_device().type == mx.cpu else "gpu",
        "has_openblas": has_openblas,
        "memory_bytes": next((known[key] for key in _MEMORY_KEYS if key in known), 0),
    }
    return _write(facts)


def _write(facts: dict[str, object]) -> int:
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
