"""Prompts are read in fair turns and in company, and hold what each would hold alone."""

import random

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx import nn
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

from appliance.engine.prompt import Prompt, PromptReader
from appliance.engine.ring import leaves, read_layouts
from appliance.scheduler.sequence import Sequence
from tests.engine.worker_client import tokens
from tests.tiny_models import VOCAB_SIZE, write_tiny_model

pytestmark = pytest.mark.mlx

_MOST_TOGETHER = 4
_GROUPED = "llama"
_ALONE = ("gemma3_text", "mamba2", "falcon_h1", "llama4")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, nn.Module]:
    names = (_GROUPED, *_ALONE)
    folders = {name: write_tiny_model(tmp_path_factory.mktemp(name), name) for name in names}
    return {name: load_model(folder)[0] for name, folder in folders.items()}


@pytest.fixture
def reader(models: dict[str, nn.Module]) -> PromptReader:
    """A reader of a model whose prompts can be grouped, four at a time."""
    return PromptReader(models[_GROUPED], _MOST_TOGETHER, can_group=True)


def _ids(size: int) -> list[int]:
    dice = random.Random(size)
    return [dice.randrange(VOCAB_SIZE) for _ in range(size)]


def _add(reader: PromptReader, **sizes: int) -> None:
    """Add prompts by name that have so many tokens to be read, and one that decodes."""
    for name, size in sizes.items():
        ids = _ids(size + 1)
        reader.add(tokens(name, ids, 1), Sequence(name, len(ids)), ids)


def _turn(reader: PromptReader, most_tokens: int) -> tuple[str, list[str]]:
    """Read a chunk; return whose turn it was and which prompts are done."""
    prompt = reader.next_prompt()
    assert prompt is not None
    chunk = reader.read(prompt, most_tokens)
    mx.eval(chunk.arrays)
    return prompt.submit.id, [done.submit.id for done in chunk.done]


def _names(reader: PromptReader) -> list[str]:
    return [prompt.submit.id for prompt in reader.prompts()]


def _holds_as_alone(model: nn.Module, prompt: Prompt) -> bool:
    """Say whether the row of the prompt's caches goes on as caches do that read it alone."""
    alone = make_prompt_cache(model)
    mx.eval(model(mx.array([prompt.ids[:-1]]), cache=alone))
    layouts = read_layouts(alone)
    if layouts is None:
        last = mx.array([prompt.ids[-1:]])
        return _is_close(model(last, cache=prompt.caches), model(last, cache=alone))
    return all(
        _is_close(got, expected)
        for layout, mine, other in zip(layouts, leaves(prompt.caches), leaves(alone), strict=True)
        for got, expected in zip(
            layout.row_of(mine, prompt.index, prompt.length),
            layout.row_of(other, 0, prompt.length),
            strict=True,
        )
    )


def _is_close(got: mx.array, expected: mx.array) -> bool:
    scale = mx.max(mx.abs(expected))
    return bool((mx.max(mx.abs(got - expected)) <= 1e-4 * scale).item())


def test_reader_without_prompts_has_nobody_next(reader: PromptReader) -> None:
    assert len(reader) == 0
    assert reader.next_prompt() is None


def test_prompt_with_least_left_is_next(reader: PromptReader) -> None:
    _add(reader, long=30, short=5, middle=12)

    turns = [_turn(reader, 5)[0] for _ in range(3)]

    assert turns == ["short", "middle", "middle"]


def test_every_fourth_turn_is_the_oldest_ones(reader: PromptReader) -> None:
    _add(reader, long=30, middle=26)

    turns = [_turn(reader, 4)[0] for _ in range(8)]

    assert turns == (["middle"] * 3 + ["long"]) * 2


def test_long_prompt_ends_under_a_flood_of_short_ones(reader: PromptReader) -> None:
    _add(reader, long=40)
    done: list[str] = []

    for number in range(20):
        _add(reader, **{f"short {number}": 8})
        done += _turn(reader, 8)[1]

    assert "long" in done


def test_prompt_that_was_overtaken_goes_on_where_it_was(reader: PromptReader) -> None:
    _add(reader, long=20)
    first = reader.next_prompt()
    assert first is not None
    reader.read(first, 15)
    _add(reader, short=3)

    chunk = reader.read(first, 15)

    assert (chunk.offset, chunk.tokens) == (15, 5)
    assert chunk.done == [first]
    assert _names(reader) == ["short"]


def test_prompts_of_like_length_are_done_in_one_chunk(reader: PromptReader) -> None:
    _add(reader, a=20, b=24, c=26, d=21, e=60)

    name, done = _turn(reader, 100)

    assert name == "a"
    assert done == ["a", "b", "d"]
    assert _names(reader) == ["c", "e"]


def test_group_counts_its_padding(reader: PromptReader) -> None:
    _add(reader, a=8, b=10)
    prompt = reader.next_prompt()
    assert prompt is not None

    chunk = reader.read(prompt, 100)

    assert (chunk.offset, chunk.tokens) == (0, 20)
    assert [(each.num_read, each.remaining) for each in chunk.done] == [(8, 0), (10, 0)]


@pytest.mark.parametrize(("most_tokens", "count"), [(31, 1), (32, 2), (48, 3), (1000, 4)])
def test_group_keeps_to_the_chunk_and_to_the_most_together(
    reader: PromptReader, most_tokens: int, count: int
) -> None:
    _add(reader, a=16, b=16, c=16, d=16, e=16)

    _, done = _turn(reader, most_tokens)

    assert done == ["a", "b", "c", "d", "e"][:count]


def test_prompt_in_progress_is_not_grouped(reader: PromptReader) -> None:
    _add(reader, a=20)
    _turn(reader, 10)
    _add(reader, b=9, c=10)

    assert _turn(reader, 100) == ("b", ["b", "c"])
    _add(reader, d=10)
    assert _turn(reader, 100) == ("a", ["a"])


def test_prompts_of_one_token_have_nothing_to_read(reader: PromptReader) -> None:
    _add(reader, a=0, b=0)
    prompt = reader.next_prompt()
    assert prompt is not None

    chunk = reader.read(prompt, 100)

    assert (chunk.tokens, chunk.arrays) == (0, [])
    assert chunk.done == [prompt]
    assert prompt.length == 0
    assert _names(reader) == ["b"]


def test_prompt_removed_in_the_middle_leaves_the_others(reader: PromptReader) -> None:
    _add(reader, a=20, b=30, c=40)
    _turn(reader, 10)

    reader.remove("a")

    assert "a" not in reader
    assert _names(reader) == ["b", "c"]
    assert _turn(reader, 30) == ("b", ["b"])


def test_cleared_reader_is_empty(reader: PromptReader) -> None:
    _add(reader, a=20, b=30)
    _turn(reader, 10)

    reader.clear()

    assert (len(reader), reader.next_prompt()) == (0, None)


@pytest.mark.parametrize("architecture", _ALONE)
def test_prompts_that_cannot_be_grouped_are_read_one_by_one_as_alone(
    models: dict[str, nn.Module], architecture: str
) -> None:
    model = models[architecture]
    reader = PromptReader(model, _MOST_TOGETHER, can_group=False)
    _add(reader, a=20, b=20, c=33)
    done: list[Prompt] = []

    while (prompt := reader.next_prompt()) is not None:
        chunk = reader.read(prompt, 9)
        assert len(chunk.done) <= 1
        done += chunk.done

    assert len(done) == 3
    assert all(_holds_as_alone(model, prompt) for prompt in done)


def test_few_shapes_pad_the_ends_of_prompts_and_the_groups(models: dict[str, nn.Module]) -> None:
    model = models[_GROUPED]
    reader = PromptReader(model, _MOST_TOGETHER, can_group=True, has_few_shapes=True)
    _add(reader, a=50, b=51, c=52)
    prompt = reader.next_prompt()
    assert prompt is not None

    chunk = reader.read(prompt, 1000)

    assert chunk.tokens == 4 * 128
    assert [each.length for each in chunk.done] == [50, 51, 52]


@pytest.mark.parametrize(("most_tokens", "count"), [(300, 2), (511, 2), (512, 4)])
def test_few_shapes_keep_to_the_chunk(
    models: dict[str, nn.Module], most_tokens: int, count: int
) -> None:
    model = models[_GROUPED]
    reader = PromptReader(model, _MOST_TOGETHER, can_group=True, has_few_shapes=True)
    _add(reader, a=48, b=48, c=48, d=48)
    prompt = reader.next_prompt()
    assert prompt is not None

    chunk = reader.read(prompt, most_tokens)

    assert len(chunk.done) == count
    assert chunk.tokens <= most_tokens


@settings(deadline=None, max_examples=25)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    chunks=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    has_few_shapes=st.booleans(),
)
def test_every_prompt_is_read_once_as_alone(
    models: dict[str, nn.Module], sizes: list[int], chunks: list[int], has_few_shapes: bool
) -> None:
    model = models[_GROUPED]
    reader = PromptReader(model, _MOST_TOGETHER, can_group=True, has_few_shapes=has_few_shapes)
    _add(reader, **{str(number): size for number, size in enumerate(sizes)})
    done: list[Prompt] = []
    turn = 0

    while (prompt := reader.next_prompt()) is not None:
        most_tokens = chunks[turn % len(chunks)]
        chunk = reader.read(prompt, most_tokens)
        assert chunk.tokens <= most_tokens
        done += chunk.done
        turn += 1

    assert sorted(each.submit.id for each in done) == sorted(map(str, range(len(sizes))))
    assert all(_holds_as_alone(model, each) for each in done if each.length)
