"""The operator's list of what is refused is what an appliance really refuses."""

import pytest

from tests.contract.refusal import LIST, list_text

pytestmark = pytest.mark.slow


def test_list_of_refused_parameters_is_fresh() -> None:
    assert list_text() == LIST.read_text(encoding="utf-8"), "run python -m tests.contract.refusal"
