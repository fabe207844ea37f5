"""How much of the machine models may take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.manifest.quantity import Share
from appliance.manifest.spec import MemorySpec

GIB = 2**30


@pytest.mark.parametrize(
    ("budget", "reserve", "machine", "bytes_left"),
    [
        ("80%", 0, 100 * GIB, 80 * GIB),
        ("80%", 30 * GIB, 100 * GIB, 70 * GIB),
        ("24GiB", 0, 100 * GIB, 24 * GIB),
        (200 * GIB, 4 * GIB, 100 * GIB, 96 * GIB),
        ("100%", "2GiB", GIB, 0),
    ],
)
def test_budget_is_the_smaller_of_share_and_what_the_reserve_leaves(
    budget: object, reserve: object, machine: int, bytes_left: int
) -> None:
    memory = MemorySpec.model_validate({"budget": budget, "reserve": reserve})

    assert memory.budget_bytes(machine) == bytes_left


@given(st.floats(0.001, 1), st.integers(0, 2**50), st.integers(0, 2**50))
def test_budget_is_never_more_than_the_machine_can_give(
    fraction: float, reserve: int, machine: int
) -> None:
    memory = MemorySpec(budget=Share(fraction), reserve=reserve)

    assert 0 <= memory.budget_bytes(machine) <= max(0, machine - reserve)
