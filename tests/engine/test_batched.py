"""How much of its prompts a batch reads in one step."""

from pathlib import Path

import mlx.core as mx
import pytest
from mlx import nn
from mlx_lm.utils import load_model

from appliance.chat.tokenizer import Tokenizer
from appliance.engine.batched import BatchedBody
from appliance.engine.mlx_body import LoadedModel
from appliance.engine.wire import EngineSettings, MemoryLimits
from tests.engine.worker_client import tokens
from tests.tiny_models import VOCAB_SIZE, write_tiny_model

pytestmark = pytest.mark.mlx

_CHUNK = 64


class _Recorder:
    """A model that notes the shapes of what it is given."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self.layers = model.layers
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, inputs: mx.array, cache: object = None) -> mx.array:
        self.shapes.append(inputs.shape)
        logits: mx.array = self._model(inputs, cache=cache)
        return logits


def _open(folder: Path, max_sequences: int) -> tuple[BatchedBody, _Recorder]:
    write_tiny_model(folder, "llama")
    recorder = _Recorder(load_model(folder)[0])
    loaded = LoadedModel(recorder, Tokenizer.load(folder), 256, VOCAB_SIZE, 1)
    engine = EngineSettings(max_sequences=max_sequences, prefill_chunk_tokens=_CHUNK)
    return BatchedBody(loaded, engine, MemoryLimits()), recorder


@pytest.mark.parametrize("lengths", [(200,) * 8, (200,), (200, 5, 5, 5, 5, 90, 150)])
def test_step_reads_at_most_one_chunk_of_prompts_in_all(
    tmp_path: Path, lengths: tuple[int, ...]
) -> None:
    body, recorder = _open(tmp_path, max_sequences=8)
    for number, length in enumerate(lengths):
        body.insert(tokens(f"{number}", [number] * length, 2))

    read: list[int] = []
    while body.idle_seconds() == 0:
        recorder.shapes.clear()
        body.step()
        read.append(sum(rows * width for rows, width in recorder.shapes if width > 1))

    assert 0 < max(read) <= _CHUNK
    assert sum(read) >= sum(lengths) - 2 * len(lengths)
    body.close()


def test_short_prompt_does_not_wait_for_a_long_one(tmp_path: Path) -> None:
    body, _ = _open(tmp_path, max_sequences=8)
    body.insert(tokens("long", [1] * 250, 2))
    body.step()
    body.insert(tokens("short", [1] * 5, 1))

    ended: list[str] = []
    while not ended:
        ended += body.step().ends

    assert ended == ["short"]
    body.close()
