from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.scheduler.pace import Pace


@dataclass(frozen=True)
class Machine:
    """What steps and chunks take on an imagined machine, in seconds."""

    overhead: float
    per_token: float
    per_offset: float
    step: float

    def chunk(self, tokens: int, offset: int) -> float:
        return self.overhead + tokens * (self.per_token + offset * self.per_offset)


def _pace(
    most_tokens: int, overhead: float, per_token: float, *, has_few_sizes: bool = False
) -> Pace:
    """Return the pace of a machine whose chunks take a line."""
    ladder = [(size, overhead + size * per_token) for size in (32, 128, 512)]
    return Pace(most_tokens, ladder, has_few_sizes=has_few_sizes)


def _read_beside(machine: Machine, pace: Pace, length: int) -> tuple[list[float], float]:
    """Read a prompt beside 8 running rows; return the steps' seconds and their sum."""
    gaps = []
    offset = 0
    while offset < length:
        tokens = min(pace.chunk_tokens(8, offset), length - offset)
        seconds = machine.chunk(tokens, offset) if tokens else 0.0
        gaps.append(machine.step + seconds)
        if tokens:
            pace.note_chunk(tokens, offset, seconds)
        else:
            pace.note_decode(8, machine.step)
        offset += tokens
    return gaps, sum(gaps)


def test_pace_reads_nothing_before_it_knows_a_step() -> None:
    pace = _pace(512, 0.01, 0.001)

    assert pace.chunk_tokens(8, 0) == 0
    assert 0 < pace.chunk_tokens(8, 0) <= 512


def test_pace_alone_reads_for_two_seconds() -> None:
    assert _pace(4096, 0.0, 0.001).chunk_tokens(0, 0) == 1984
    assert _pace(256, 0.0, 0.001).chunk_tokens(0, 0) == 256


def test_pace_learns_again_when_the_batch_grows() -> None:
    pace = _pace(512, 0.0, 0.001)
    pace.note_decode(1, 0.1)

    sizes = [pace.chunk_tokens(64, 0) for _ in range(8)]

    assert sizes.count(0) == 2
    assert {size for size in sizes if size} == {128}


@given(
    step=st.floats(0.01, 0.5),
    overhead=st.floats(0.0, 0.5),
    per_token=st.floats(1e-4, 5e-3),
    growth=st.floats(0.0, 2.0),
    belief=st.floats(0.8, 1.25),
)
def test_pace_keeps_gap_and_prefill_in_bounds(
    step: float, overhead: float, per_token: float, growth: float, belief: float
) -> None:
    machine = Machine(overhead * step * 0.3, per_token, growth * per_token / 4096, step)
    pace = _pace(4096, machine.overhead * belief, per_token * belief)
    for _ in range(4):
        _read_beside(machine, pace, 4096)

    gaps, total = _read_beside(machine, pace, 4096)

    least = machine.chunk(32, 4096) + step
    assert max(gaps) <= max(2.5 * step, least) * 1.05
    chunks = [gap - step for gap in gaps if gap > step]
    if sum(chunks) > 8 * step and machine.chunk(32, 4096) < step:
        assert total <= sum(chunks) * 1.8 + 2 * step


@pytest.mark.parametrize("tokens", [16, 32, 100, 2048])
def test_pace_never_exceeds_the_bound(tokens: int) -> None:
    pace = _pace(tokens, 1e-6, 1e-6)
    pace.note_decode(4, 1.0)

    sizes = [pace.chunk_tokens(4, 0) for _ in range(50)]

    assert all(0 < size <= tokens for size in sizes)


def test_pace_distrusts_one_odd_measurement() -> None:
    pace = _pace(4096, 0.0, 0.001)
    pace.note_decode(4, 0.1)
    before = pace.chunk_tokens(4, 0)

    pace.note_chunk(100, 0, 100.0)

    assert pace.chunk_tokens(4, 0) >= before / 2


@given(st.lists(st.floats(0.9, 1.1), min_size=1, max_size=30), st.integers(100, 10**5))
def test_pace_of_few_sizes_keeps_to_one_while_it_fits(noise: list[float], tokens: int) -> None:
    pace = _pace(10**6, 0.0, 0.001, has_few_sizes=True)
    pace.note_decode(4, tokens * 0.001)
    pace.chunk_tokens(4, 0)
    sizes = set()

    for factor in noise:
        size = pace.chunk_tokens(4, 0)
        pace.note_chunk(size, 0, size * 0.001 * factor)
        sizes.add(size)

    assert len(sizes) <= 2
    assert all(size % (1 << (size.bit_length() - 3)) == 0 for size in sizes)


def test_pace_of_one_rung_has_no_overhead() -> None:
    assert Pace(4096, [(32, 0.032)]).chunk_seconds(100, 0) == pytest.approx(0.1)


def test_pace_reads_as_much_as_costs_no_more() -> None:
    """Up to some size a chunk takes what it takes to launch it."""
    ladder = [(32, 0.01), (128, 0.01), (512, 0.011), (2048, 0.05)]
    pace = Pace(4096, ladder, has_few_sizes=True)
    pace.note_decode(8, 0.005)

    assert 512 <= pace.chunk_tokens(8, 0) <= 640
    assert pace.chunk_seconds(512, 0) == pytest.approx(0.011)


@pytest.mark.parametrize("overhead", [0.0, 0.01, 0.1, 1.0])
def test_pace_reads_at_half_the_best_speed_at_least(overhead: float) -> None:
    pace = _pace(4096, overhead, 0.001)
    pace.note_decode(8, 0.001)
    best = 512 / (overhead + 0.512)

    size = pace.chunk_tokens(8, 0)

    assert size >= 32
    assert size / (overhead + size * 0.001) >= best / 2 * 0.9
    assert size <= max(34, overhead / 0.001)
