"""The exact bytes of answers, case by case: see the files in `golden`."""

import pytest

from tests.api.golden_answer import NAMES, read


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_the_golden_one_byte_for_byte(name: str) -> None:
    made, expected = read(name)

    assert made == expected
