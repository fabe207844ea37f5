"""A tiny Llama that fails where the prompt asks for it, by the code that lies in its own folder."""

import json
from pathlib import Path

from tests.tiny_models import write_tiny_model

# Tokens that no answer has. With NAN the row's numbers are none; with BROKEN the call raises; with
# ONCE it finds no memory, but only the first time; with CROWDED whenever over two rows are there.
# With FATAL nothing works any more.
FIRST_MARKER = 249
FATAL, NAN, BROKEN, ONCE, CROWDED = range(249, 254)

_CODE = f"""
import mlx.core as mx
from mlx_lm.models.llama import Model as Llama, ModelArgs

FIRST_MARKER, NAN, BROKEN, ONCE = {FIRST_MARKER}, {NAN}, {BROKEN}, {ONCE}
FATAL, CROWDED = {FATAL}, {CROWDED}


class Model(Llama):
    def __init__(self, args):
        super().__init__(args)
        self._was_short = False
        self._is_dead = False

    def sanitize(self, weights):
        weights["model.embed_tokens.weight"][NAN] = mx.nan
        return super().sanitize(weights)

    def __call__(self, inputs, cache=None):
        seen = set(inputs.flatten().tolist())
        self._is_dead |= FATAL in seen
        if BROKEN in seen or self._is_dead:
            raise ValueError("secret")
        is_crowded = CROWDED in seen and inputs.shape[0] > 2
        if is_crowded or (ONCE in seen and not self._was_short):
            self._was_short = True
            raise RuntimeError("[malloc] Unable to allocate 7 bytes.")
        logits = super().__call__(inputs, cache)
        is_marker = mx.arange(logits.shape[-1]) >= FIRST_MARKER
        return mx.where(is_marker, logits - 1e4, logits)
"""


def write_faulty_model(folder: Path) -> Path:
    """Write the model and return its folder; it loads with `trust_remote_code` only."""
    write_tiny_model(folder, "llama")
    (folder / "faulty.py").write_text(_CODE)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_file": "faulty.py"}))
    return folder
