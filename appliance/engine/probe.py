"""Say what MLX can do here, as one JSON line: run as `python -m appliance.engine.probe`."""

import json
import sys
from importlib.metadata import version

from appliance.engine.blas import preload_blas


def main() -> int:
    """Write `{"version", "device", "has_openblas"}`, or `{"error"}` and return 1."""
    has_openblas = preload_blas()
    try:
        import mlx.core as mx  # noqa: PLC0415 - a missing or broken MLX is what is asked about

        mx.eval(mx.ones((2, 2)) @ mx.ones((2, 2)))
    except (ImportError, OSError, RuntimeError) as error:
        return _write({"error": " ".join(str(error).split())}) or 1
    device = "cpu" if mx.default_device().type == mx.cpu else "gpu"
    return _write({"version": version("mlx"), "device": device, "has_openblas": has_openblas})


def _write(facts: dict[str, object]) -> int:
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
