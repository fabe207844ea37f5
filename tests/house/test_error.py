"""Check that every error that can be raised has its place in the HTTP table."""

from collections.abc import Iterator

import pytest

from appliance.api.errors import ERROR_TABLE
from appliance.errors import ApplianceError


def leaves(error: type[ApplianceError]) -> Iterator[type[ApplianceError]]:
    children = error.__subclasses__()
    if not children:
        yield error
    for child in children:
        yield from leaves(child)


def in_the_tree() -> list[type[ApplianceError]]:
    return [leaf for leaf in leaves(ApplianceError) if leaf.__module__ == "appliance.errors"]


@pytest.mark.parametrize("leaf", in_the_tree(), ids=lambda leaf: leaf.__name__)
def test_error_leaf_has_a_row(leaf: type[ApplianceError]) -> None:
    assert leaf in ERROR_TABLE


@pytest.mark.parametrize("error", ERROR_TABLE, ids=lambda error: error.__name__)
def test_error_row_is_a_4xx_or_5xx(error: type[ApplianceError]) -> None:
    row = ERROR_TABLE[error]

    assert 400 <= row.status <= 599
    assert row.openai_type
    assert row.anthropic_type
