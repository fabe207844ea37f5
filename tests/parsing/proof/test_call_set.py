"""Calls that each family's own template writes are read back, wherever the text is cut."""

import pytest

from tests.examples import examples
from tests.parsing.proof.cut import check_cuts, check_states
from tests.parsing.proof.family import REFERENCES, family, names

_NUM_CUT, _NUM_STATES = examples(12), examples(6)


@pytest.mark.parametrize("name", REFERENCES)
def test_calls_of_families_without_template_are_read_back(name: str) -> None:
    each = family(name)

    check_cuts(each, _NUM_CUT)
    check_states(each, _NUM_STATES)


@pytest.mark.registry
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", names())
def test_calls_of_every_template_are_read_back(name: str) -> None:
    each = family(name)

    check_cuts(each, _NUM_CUT)
    check_states(each, _NUM_STATES)
