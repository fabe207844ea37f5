"""Rows of a batch have the logits that they have alone, whatever the batch goes through."""

import gc
import random
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx_lm.models.cache import ArraysCache, KVCache, make_prompt_cache
from mlx_lm.utils import load_model

from appliance.engine.ring import Layout, RingLayout, leaves, read_layouts
from appliance.engine.ring_batch import RingBatch, Way
from tests.tiny_models import VOCAB_SIZE, write_tiny_model

pytestmark = pytest.mark.mlx

_MOST_ROWS = 5
_MOST_COLUMNS = 64
_LONGEST_PROMPT = 40
_TOLERANCE = 1e-4
_ATTENTIONS = ("llama", "gemma3_text")
_WAYS = {"windowed": Way(is_windowed=True), "plain": Way(), "twin": Way(is_twin=True)}
_WALKS = [
    pytest.param(architecture, way, id=f"{architecture}-{name}")
    for architecture in (*_ATTENTIONS, "falcon_h1", "mamba2")
    for name, way in _WAYS.items()
    if architecture in _ATTENTIONS or not way.is_twin
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, nn.Module]:
    names = (*_ATTENTIONS, "falcon_h1", "mamba2")
    folders = {name: write_tiny_model(tmp_path_factory.mktemp(name), name) for name in names}
    return {name: load_model(folder)[0] for name, folder in folders.items()}


class _Walk:
    """A batch, and beside each of its rows the same tokens in prompt caches of their own."""

    def __init__(self, model: nn.Module, way: Way, seed: int) -> None:
        self.num_compared = 0
        self._model = model
        self._dice = random.Random(seed)
        self._layouts = read_layouts(self._read([[1]]))
        assert self._layouts is not None
        caches = make_prompt_cache(model)
        self.batch = RingBatch(model, caches, self._layouts, lambda _: way, patience=0)
        self.alone: list[list[Any] | None] = []

    @property
    def live(self) -> list[int]:
        return [row for row, caches in enumerate(self.alone) if caches is not None]

    @property
    def longest(self) -> int:
        return max((length or 0 for length in self.batch.lengths), default=0)

    def resize(self) -> None:
        """Shuffle the rows among more or fewer empty ones, or not, and give them other columns."""
        order: list[int | None] = [*self.live]
        order += [None] * self._dice.randint(0 if order else 1, _MOST_ROWS - len(order))
        self._dice.shuffle(order)
        if self.alone and self._dice.random() < 0.3:
            order = list(range(len(self.alone)))
        columns = self._dice.choice((max(1, self.longest), self.longest + 5, _MOST_COLUMNS))
        self.batch.resize(order, columns)
        self.alone = [None if row is None else self.alone[row] for row in order]

    def join(self) -> None:
        """Let a prompt join an empty row, or several that were read together."""
        empty = [row for row, caches in enumerate(self.alone) if caches is None]
        rows = self._dice.sample(empty, min(len(empty), self._dice.choice((1, 1, 3))))
        most = min(_LONGEST_PROMPT, self.batch.columns - 1)
        length = self._dice.choice((0, min(1, most), self._dice.randint(0, most)))
        prompts = [[self._dice.randrange(VOCAB_SIZE) for _ in range(length)] for _ in rows]
        if self._is_plain:
            prompts = [ids[self._dice.randint(0, length // 4) :] for ids in prompts]
        together = self._read(prompts)
        for index, (row, ids) in enumerate(zip(rows, prompts, strict=True)):
            self.batch.join(row, together, index, len(ids))
            self.alone[row] = self._read([ids])

    def leave(self, row: int) -> None:
        self.batch.leave(row)
        self.alone[row] = None

    def step(self) -> None:
        """Add a token to every row and compare the logits of the live ones."""
        while self.longest >= self.batch.columns:
            self.leave(max(self.live, key=lambda row: self.batch.lengths[row] or 0))
        tokens = [self._dice.randrange(VOCAB_SIZE) for _ in self.alone]
        logits = self.batch.forward(mx.array(tokens, dtype=mx.int32))
        mx.eval(logits, self.batch.arrays())
        for row, token in enumerate(tokens):
            if caches := self.alone[row]:
                expected = self._model(mx.array([[token]]), cache=caches)[0, -1]
                error = mx.max(mx.abs(logits[row] - expected)) / mx.max(mx.abs(expected))
                assert (error < _TOLERANCE).item(), (row, self.batch.lengths)
                self.num_compared += 1

    def steps(self, count: int, resizes: float) -> None:
        """Step so often; before each rows may join or leave, and be resized that often."""
        for _ in range(count):
            if self._dice.random() < resizes:
                self.resize()
            if self._dice.random() < 0.15:
                self.join()
            if self.live and self._dice.random() < 0.05:
                self.leave(self._dice.choice(self.live))
            self.step()

    @property
    def _is_plain(self) -> bool:
        assert self._layouts is not None
        return all(isinstance(each, RingLayout) and each.window is None for each in self._layouts)

    def _read(self, prompts: list[list[int]]) -> list[Any]:
        """Return prompt caches that hold these prompts, the shorter ones padded behind."""
        caches: list[Any] = make_prompt_cache(self._model)
        size = max(map(len, prompts), default=0)
        if size:
            padded = [ids + [0] * (size - len(ids)) for ids in prompts]
            mx.eval(self._model(mx.array(padded), cache=caches))
        return caches


@pytest.mark.parametrize(("architecture", "way"), _WALKS)
def test_rows_have_the_logits_they_have_alone(
    models: dict[str, nn.Module], architecture: str, way: Way
) -> None:
    walk = _Walk(models[architecture], way, seed=1)

    walk.resize()
    walk.steps(50, resizes=0.1)
    walk.batch.resize(range(len(walk.alone)), max(24, walk.longest + 1))
    walk.steps(70, resizes=0.0)

    assert walk.num_compared > 100


def test_compiled_rows_have_the_logits_they_have_alone(models: dict[str, nn.Module]) -> None:
    walk = _Walk(models["llama"], Way(is_compiled=True), seed=1)

    walk.batch.resize([None] * 4, 16)
    walk.alone = [None] * 4
    walk.steps(36, resizes=0.0)

    assert walk.num_compared > 20


def test_row_that_joins_after_a_poisoned_one_is_sound(models: dict[str, nn.Module]) -> None:
    walk = _Walk(models["falcon_h1"], Way(), seed=2)
    walk.batch.resize([None], 16)
    caches = make_prompt_cache(models["falcon_h1"])
    mx.eval(models["falcon_h1"](mx.array([[1, 2, 3]]), cache=caches))
    for leaf in leaves(caches):
        if isinstance(leaf, ArraysCache):
            leaf.state = ([each * mx.nan for each in leaf.state[0]], None, None)

    walk.batch.join(0, caches, 0, 3)
    poisoned = walk.batch.forward(mx.array([1], dtype=mx.int32))
    walk.batch.leave(0)
    walk.alone = [None]
    walk.join()
    walk.step()

    assert mx.isnan(poisoned).any().item()
    assert walk.num_compared == 1


def test_row_that_held_nan_is_clean_for_the_next(models: dict[str, nn.Module]) -> None:
    model = models["llama"]
    walk = _Walk(model, Way(is_windowed=True), seed=4)
    walk.batch.resize([None] * 2, 16)
    walk.alone = [None] * 2
    broken = make_prompt_cache(model)
    model(mx.array([[1] * 9]), cache=broken)
    for layer in broken:
        layer.keys, layer.values = layer.keys * mx.nan, layer.values * mx.nan
    walk.batch.join(0, broken, 0, 9)
    logits = walk.batch.forward(mx.zeros((2,), mx.int32))
    assert mx.isnan(logits[0]).all().item()
    walk.batch.leave(0)

    walk.join()
    walk.join()
    for _ in range(4):
        walk.step()

    assert walk.num_compared == 8


class _Layer(nn.Module):  # type: ignore[misc]
    """A layer that writes its cache and returns how many columns it got to read, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self._fails = fails

    def __call__(self, inputs: mx.array, cache: list[Any]) -> mx.array:
        new = mx.zeros((*inputs.shape, 256))[:, None]
        keys, _ = cache[0].update_and_fetch(new, new)
        if self._fails:
            raise NotImplementedError
        return mx.full((*inputs.shape, 1), keys.shape[2])


def _batch_of_one_layer(layer: _Layer, way: Way) -> RingBatch:
    layouts: list[Layout] = [RingLayout((1, 256), (1, 256), mx.float32, None)]
    return RingBatch(layer, [KVCache()], layouts, lambda _: way)


def test_windowed_batch_reads_only_the_columns_in_use_wherever_it_is() -> None:
    batch = _batch_of_one_layer(_Layer(), Way(is_windowed=True))
    batch.resize([None] * 2, 16)
    prompt_cache = KVCache()
    prompt_cache.update_and_fetch(mx.zeros((1, 1, 9, 256)), mx.zeros((1, 1, 9, 256)))
    batch.join(0, [prompt_cache], 0, 9)
    batch.join(1, [KVCache()], 0, 0)
    tokens = mx.zeros((2,), mx.int32)

    together = [batch.forward(tokens)[0].item() for _ in range(6)]
    batch.leave(0)
    after = [batch.forward(tokens)[0].item() for _ in range(9)]

    assert together == list(range(10, 16))
    assert after == list(range(7, 16))


def test_batch_resized_for_a_longer_row_is_in_one_piece_when_it_joins() -> None:
    batch = _batch_of_one_layer(_Layer(), Way(is_windowed=True))
    batch.resize([None] * 2, 16)
    batch.join(1, [KVCache()], 0, 0)
    tokens = mx.zeros((2,), mx.int32)
    batch.forward(tokens)
    prompt_cache = KVCache()
    prompt_cache.update_and_fetch(mx.zeros((1, 1, 20, 256)), mx.zeros((1, 1, 20, 256)))

    batch.resize([None, 1], 64, coming=20, is_tight=True)
    batch.join(0, [prompt_cache], 0, 20)

    assert [batch.forward(tokens)[0].item() for _ in range(3)] == [21, 22, 23]


def test_clear_frees_what_a_call_that_raised_left() -> None:
    gc.collect()
    before = mx.get_active_memory()
    batch = _batch_of_one_layer(_Layer(fails=True), Way())
    batch.resize([None] * 4, 256)
    mx.eval(batch.arrays())

    with pytest.raises(NotImplementedError):
        batch.forward(mx.zeros((4,), mx.int32))
    held = mx.get_active_memory() - before
    batch.clear()

    assert held >= 2 * 4 * 256 * 256 * 4
    assert mx.get_active_memory() - before < 2**12
