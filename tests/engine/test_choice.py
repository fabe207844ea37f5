"""A model is batched only if its rows then have the logits that they have alone."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx_lm.models.cache import KVCache, make_prompt_cache
from mlx_lm.utils import load_model
from structlog.testing import capture_logs

from appliance.engine.choice import choose_batch, ways
from appliance.engine.ring import read_layouts
from appliance.engine.ring_batch import RingBatch
from appliance.engine.row_batch import RowBatch
from tests.tiny_models import ARCHITECTURES, write_tiny_model

pytestmark = pytest.mark.mlx

_WIDTH = 8
_FAR = 1e9

Rule = Callable[[Any, mx.array], mx.array]


class _Attention(nn.Module):  # type: ignore[misc]
    """One attention layer, whose `rule` adds to the scores of the columns that it is given."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        mx.random.seed(1)
        self.embedding = nn.Embedding(16, _WIDTH)
        self.embedding.weight = self.embedding.weight * 4
        self._rule = rule

    def make_cache(self) -> list[KVCache]:
        return [KVCache()]

    def __call__(self, inputs: mx.array, cache: list[Any]) -> mx.array:
        x = self.embedding(inputs)[:, None]
        mask = cache[0].make_mask(inputs.shape[1], return_array=True, window_size=None)
        keys, values = cache[0].update_and_fetch(x, x)
        scores = x @ keys.swapaxes(-1, -2)
        scores = scores + self._rule(cache[0], mx.arange(keys.shape[2]))
        if mask is not None:
            scores = mx.where(mask, scores, -_FAR)
        mixed = mx.softmax(scores, axis=-1) @ values
        logits: mx.array = self.embedding.as_linear(mixed[:, 0])
        return logits


def _by_nothing(cache: Any, columns: mx.array) -> mx.array:  # noqa: ANN401
    return mx.zeros(columns.shape)


def _by_column(cache: Any, columns: mx.array) -> mx.array:  # noqa: ANN401
    """Favour some columns, as if a token's column were its position.

    Not later ones evenly: a softmax does not notice by how much all of them are shifted.
    """
    return columns % 5 * 0.5


def _by_offset(cache: Any, columns: mx.array) -> mx.array:  # noqa: ANN401
    """Take the offset for one number, as if all rows were at the same position."""
    return mx.zeros(columns.shape) * int(cache.offset)


def _by_size(cache: Any, columns: mx.array) -> mx.array:  # noqa: ANN401
    """Ask the cache what only mlx-lm's own ones know."""
    size: int = cache.size()
    return mx.zeros(columns.shape) + size * 0


def _choose(model: nn.Module) -> tuple[RingBatch | RowBatch, list[Any]]:
    """Return what is chosen, and what the log says meanwhile from warnings on."""
    caches = make_prompt_cache(model)
    mx.eval(model(mx.array([[0, 0]]), cache=caches))
    with capture_logs() as lines:
        batch = choose_batch(model, read_layouts(caches), 8)
    return batch, [line["event"] for line in lines if line["log_level"] == "warning"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_known_architectures_are_batched_where_their_caches_can_be(
    tmp_path: Path, architecture: str
) -> None:
    model, _ = load_model(write_tiny_model(tmp_path, architecture))

    batch, warnings = _choose(model)

    if architecture == "llama4":
        assert isinstance(batch, RowBatch)
        assert warnings == ["batching_unavailable"]
    else:
        assert isinstance(batch, RingBatch)
        assert batch.way in ways()
        assert warnings == []


def test_plain_attention_is_batched() -> None:
    batch, warnings = _choose(_Attention(_by_nothing))

    assert isinstance(batch, RingBatch)
    assert warnings == []


@pytest.mark.parametrize("rule", [_by_column, _by_offset, _by_size])
def test_model_that_minds_the_ring_is_served_alone_with_a_warning(rule: Rule) -> None:
    batch, warnings = _choose(_Attention(rule))

    assert isinstance(batch, RowBatch)
    assert warnings == ["batching_unavailable"]


@pytest.mark.parametrize("rule", [_by_nothing, _by_column, _by_size])
def test_choice_leaves_nothing_in_memory(rule: Rule) -> None:
    model = _Attention(rule)
    _choose(model)
    gc.collect()
    before = mx.get_active_memory()

    batch, _ = _choose(model)

    assert mx.get_active_memory() - before < 2**12
    del batch
    gc.collect()
    assert mx.get_active_memory() == before
