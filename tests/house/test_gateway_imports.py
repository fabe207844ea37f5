"""Check that what the gateway imports at start is free of model libraries."""

import subprocess
import sys

import pytest

# The layers say so too; this one takes a start of the gateway.
pytestmark = pytest.mark.slow

FORBIDDEN = {"gguf", "huggingface_hub", "mlx", "mlx_lm", "numpy", "tokenizers", "transformers"}


def test_gateway_imports_no_model_library() -> None:
    script = "import sys, appliance.cli.main, appliance.cli.serve; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert FORBIDDEN.isdisjoint(done.stdout.split())
