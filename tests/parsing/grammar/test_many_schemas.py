"""A thousand schemas, made up and real ones: answers that a random model ends are valid."""

import pytest

from tests.parsing.grammar.random_schema import SchemaDraw
from tests.parsing.grammar.real_schema import real_schemas
from tests.parsing.grammar.test_schema import check_schema

_PART = 50


@pytest.mark.registry
@pytest.mark.parametrize("start", range(0, 500, _PART))
def test_made_up_schemas_are_enforced_or_refused(start: int) -> None:
    seeds = range(1000 + start, 1000 + start + _PART)

    ended = [check_schema(SchemaDraw(seed).schema(is_sound=seed % 4 != 0), seed) for seed in seeds]

    assert sum(ended) >= 0.9 * len(ended)


@pytest.mark.registry
@pytest.mark.parametrize("start", range(0, 500, _PART))
def test_parameters_of_real_functions_are_enforced(start: int) -> None:
    schemas = real_schemas()[start : start + _PART]

    ended = [check_schema(schema, number) for number, schema in enumerate(schemas)]

    assert len(ended) == _PART
    assert sum(ended) >= 0.9 * len(ended)
