"""The shortest calls of every format are read back, wherever the text is cut in three."""

import pytest

from tests.parsing.proof.cut import check_pairs
from tests.parsing.proof.family import family, main_names

pytestmark = [pytest.mark.registry, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", main_names())
def test_shortest_calls_are_read_back_from_three_pieces(name: str) -> None:
    check_pairs(family(name), 500)
