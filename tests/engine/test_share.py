"""A forecast never shrinks when more is held, and a share is kept, lowered and restored."""

from collections.abc import Iterator

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.engine.share import MemoryShare, TokenCosts
from appliance.engine.wire import MemoryLimits
from appliance.scheduler.room import KvLayer, KvShape

pytestmark = pytest.mark.mlx

_FOOTPRINT = 1000
_SHAPE = KvShape((KvLayer(4), KvLayer(6, window=8)), row_bytes=5)
_COSTS = TokenCosts(layer_bytes=7, score_bytes=2, sampling_bytes=30)
_MIB = 2**20

_sizes = st.integers(0, 5000)


@pytest.fixture
def own_limits() -> Iterator[None]:
    """MLX's limits are those of the whole process: put them back."""
    memory, cache = mx.set_memory_limit(2**40), mx.set_cache_limit(2**30)
    yield
    mx.set_memory_limit(memory)
    mx.set_cache_limit(cache)


def _cache_limit() -> int:
    limit = mx.set_cache_limit(0)
    mx.set_cache_limit(limit)
    return limit


def _memory_limit() -> int:
    limit = mx.set_memory_limit(2**40)
    mx.set_memory_limit(limit)
    return limit


def _share(footprint_bytes: int = _FOOTPRINT) -> MemoryShare:
    return MemoryShare(footprint_bytes, _SHAPE, _COSTS)


def test_idle_model_needs_its_footprint() -> None:
    assert _share().needed_bytes(0, 0, [], 0) == _FOOTPRINT


def test_step_needs_the_batch_a_layer_of_it_twice_and_what_it_computes() -> None:
    rows, columns = 3, 20
    batch = rows * (columns * 4 + 8 * 6 + 5)
    twice = rows * columns * 4
    step = rows * (7 + columns * 2 + 30)

    assert _share().needed_bytes(rows, columns, [], 0) == _FOOTPRINT + batch + twice + step


def test_chunk_needs_the_prompt_caches_and_what_it_computes() -> None:
    caches = (6 * 4 + 6 * 6 + 5) + (50 * 4 + 8 * 6 + 5)
    chunk = 10 * (7 + 50 * 2)

    assert _share().needed_bytes(0, 0, [6, 50], 10) == _FOOTPRINT + caches + chunk


def test_step_and_chunk_are_not_computed_at_once() -> None:
    share = _share()
    held = share.needed_bytes(2, 10, [40], 0)

    assert share.needed_bytes(2, 10, [40], 1) == held
    assert share.needed_bytes(2, 10, [40], 9) > held


@given(
    st.tuples(_sizes, _sizes, _sizes),
    st.lists(_sizes, max_size=4),
    st.tuples(_sizes, _sizes, _sizes),
    st.lists(_sizes, min_size=4, max_size=5),
)
def test_more_of_anything_never_needs_less(
    size: tuple[int, int, int],
    cached: list[int],
    more: tuple[int, int, int],
    more_cached: list[int],
) -> None:
    share = _share()
    rows, columns, chunk_tokens = size
    needed = share.needed_bytes(rows, columns, cached, chunk_tokens)
    longer = [had + added for had, added in zip(cached, more_cached, strict=False)]

    assert share.needed_bytes(rows + more[0], columns, cached, chunk_tokens) >= needed
    assert share.needed_bytes(rows, columns + more[1], cached, chunk_tokens) >= needed
    assert share.needed_bytes(rows, columns, cached, chunk_tokens + more[2]) >= needed
    assert share.needed_bytes(rows, columns, longer, chunk_tokens) >= needed
    assert share.needed_bytes(rows, columns, cached + more_cached, chunk_tokens) >= needed


@given(st.lists(_sizes, max_size=5), _sizes)
def test_forecast_does_not_mind_the_order_of_the_prompts(cached: list[int], chunk: int) -> None:
    share = _share()

    one = share.needed_bytes(1, 1, cached, chunk)

    assert one == share.needed_bytes(1, 1, reversed(cached), chunk)


def test_everything_fits_while_nobody_said_a_limit() -> None:
    assert _share().fits(2**60)


@pytest.mark.usefixtures("own_limits")
def test_what_is_at_the_limit_fits_and_a_byte_more_does_not() -> None:
    share = _share()

    share.set_limits(MemoryLimits(memory_bytes=64 * _MIB))

    assert share.limit_bytes == _memory_limit() == 64 * _MIB
    assert share.fits(64 * _MIB)
    assert not share.fits(64 * _MIB + 1)


@pytest.mark.usefixtures("own_limits")
def test_new_limits_replace_the_old() -> None:
    share = _share()
    share.set_limits(MemoryLimits(memory_bytes=64 * _MIB))

    share.set_limits(MemoryLimits(memory_bytes=128 * _MIB))

    assert share.fits(128 * _MIB)


@pytest.mark.usefixtures("own_limits")
def test_share_that_is_left_open_is_below_what_the_device_has() -> None:
    share = _share()
    known = mx.device_info(mx.default_device())
    size = known.get("max_recommended_working_set_size") or known.get("memory_size")

    share.set_limits(MemoryLimits())

    assert (share.limit_bytes is None) == (not size)
    assert share.limit_bytes is None or share.limit_bytes < int(size or 0)
    assert _memory_limit() == 2**40


@pytest.mark.usefixtures("own_limits")
@pytest.mark.parametrize(
    ("footprint", "limits", "expected"),
    [
        pytest.param(0, MemoryLimits(memory_bytes=2**40), 256 * _MIB, id="small model"),
        pytest.param(
            800 * _MIB, MemoryLimits(memory_bytes=2**40), 356 * _MIB, id="an eighth of the model"
        ),
        pytest.param(
            800 * _MIB, MemoryLimits(memory_bytes=900 * _MIB), 50 * _MIB, id="half of what is free"
        ),
        pytest.param(
            800 * _MIB, MemoryLimits(memory_bytes=700 * _MIB), 0, id="nothing where nothing is free"
        ),
        pytest.param(
            0, MemoryLimits(memory_bytes=2**40, cache_bytes=3 * _MIB), 3 * _MIB, id="as asked"
        ),
        pytest.param(0, MemoryLimits(memory_bytes=2**40, cache_bytes=0), 0, id="none, as asked"),
    ],
)
def test_reused_buffers_keep_to_their_part(
    footprint: int, limits: MemoryLimits, expected: int
) -> None:
    _share(footprint).set_limits(limits)

    assert _cache_limit() == expected


def test_lowered_share_is_less_than_is_in_use_until_it_is_restored() -> None:
    held = mx.zeros((4 * _MIB,), mx.uint8)
    mx.eval(held)
    in_use = mx.get_active_memory()
    share = _share()

    share.lower()

    assert share.fits(int(in_use * 0.9))
    assert not share.fits(in_use)
    share.restore()
    assert share.fits(in_use)


def test_lowered_share_still_holds_the_model() -> None:
    share = _share(2**50)

    share.lower()

    assert share.fits(2**50)
    assert not share.fits(2**50 + 1)


@pytest.mark.usefixtures("own_limits")
def test_restored_share_is_still_limited() -> None:
    share = _share()
    share.set_limits(MemoryLimits(memory_bytes=64 * _MIB))

    share.lower()
    share.restore()

    assert share.fits(64 * _MIB)
    assert not share.fits(64 * _MIB + 1)
