"""Greedy answers of a worker are those of plain mlx-lm, as ids and as text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from appliance.chat.tokenizer import Tokenizer
from appliance.engine.wire import EngineSettings
from tests.engine.worker_client import WorkerClient, tokens
from tests.tiny_models import ARCHITECTURES, VOCAB_SIZE, write_tiny_model

pytestmark = pytest.mark.mlx

_NUM_TOKENS = 24


@dataclass
class Loaded:
    """One architecture: its folder, a worker that serves it, and plain mlx-lm."""

    folder: Path
    worker: WorkerClient

    def expect(self, ids: list[int]) -> list[int]:
        """Return the plain answer to `ids`."""
        model, _ = load_model(self.folder)
        steps = generate_step(mx.array(ids), model, max_tokens=_NUM_TOKENS)
        return [int(token) for token, _ in steps]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Loaded]:
    folder = write_tiny_model(tmp_path_factory.mktemp(request.param), request.param)
    worker = WorkerClient.in_process()
    worker.load(folder, EngineSettings(prefill_chunk_tokens=16, max_sequences=4))
    yield Loaded(folder, worker)
    worker.close()


def _prompt(length: int) -> list[int]:
    return [(length * 31 + index * 17) % (VOCAB_SIZE - 2) for index in range(length)]


def test_greedy_answer_equals_plain_generation(loaded: Loaded) -> None:
    prompt = _prompt(37)
    wrong = [*prompt[:33], prompt[33] + 1, *prompt[34:]]
    assert loaded.expect(prompt) != loaded.expect(wrong)

    (answer,) = loaded.worker.ask(tokens("alone", prompt, _NUM_TOKENS))

    assert answer.ids == loaded.expect(prompt)
    assert answer.text == Tokenizer.load(loaded.folder).decode(answer.ids)
    assert answer.accepted is not None
    assert answer.accepted.prompt_tokens == 37
    assert (answer.end.reason, answer.end.completion_tokens) == ("length", _NUM_TOKENS)
