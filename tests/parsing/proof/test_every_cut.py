"""Many calls of every format are read back, wherever the text is cut."""

import pytest

from tests.parsing.proof.cut import check_cuts
from tests.parsing.proof.family import family, main_names

pytestmark = [pytest.mark.registry, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", main_names())
def test_many_calls_are_read_back_wherever_they_are_cut(name: str) -> None:
    check_cuts(family(name), 500)
