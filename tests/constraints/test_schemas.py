"""A thousand schemas bind a random model that is hot: what it ends is valid, and it ends most."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from appliance.chat.request import SamplingParams
from appliance.engine.wire import EngineSettings, Submit
from tests.engine.worker_client import WorkerClient, tokens
from tests.parsing.grammar.random_schema import SchemaDraw
from tests.parsing.grammar.real_schema import real_schemas
from tests.parsing.grammar.test_schema import grammar_of
from tests.tiny_models import write_tiny_model

pytestmark = [pytest.mark.mlx, pytest.mark.registry]

_PART = 50
_PROMPT = [5, 80, 33, 12, 200, 7]
_EOS = 257
_MOST_TOKENS = 600
_QUOTE, _BRACKET, _BRACE = (ord(each) - ord("!") for each in '"]}')
_SHORT = {_QUOTE: 8.0, _BRACKET: 4.0, _BRACE: 4.0}
"""What ends something is likelier, by tokens: else most of the time would go into long texts."""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerClient]:
    folder = tmp_path_factory.mktemp("hot")
    write_tiny_model(folder, "llama", _EOS, max_position_embeddings=4096)
    client = WorkerClient.in_process()
    client.load(folder, EngineSettings(max_sequences=32))
    yield client
    client.close()


@pytest.mark.parametrize("start", range(0, 500, _PART))
def test_answers_to_made_up_schemas_are_valid(worker: WorkerClient, start: int) -> None:
    seeds = range(start, start + _PART)

    _check(worker, [SchemaDraw(seed).schema(is_sound=True) for seed in seeds])


@pytest.mark.parametrize("start", range(0, 500, _PART))
def test_answers_to_real_schemas_are_valid(worker: WorkerClient, start: int) -> None:
    _check(worker, real_schemas()[start : start + _PART])


def _check(worker: WorkerClient, schemas: list[dict[str, Any]]) -> None:
    """Ask for an answer to each at once, of which most must end, and those that do be valid."""
    answers = worker.ask(*(_bound(number, schema) for number, schema in enumerate(schemas)))

    # Never an error, as it would be if nothing were allowed.
    assert {answer.end.reason for answer in answers} <= {"stop", "length"}
    ended = [
        (answer.text, schema)
        for answer, schema in zip(answers, schemas, strict=True)
        if answer.end.reason == "stop"
    ]
    for text, schema in ended:
        jsonschema.validate(json.loads(text), schema, jsonschema.Draft202012Validator)
    assert len(ended) >= 0.9 * len(schemas) >= 0.9 * _PART
    worker.answers.clear()


def _bound(number: int, schema: dict[str, Any]) -> Submit:
    hot = SamplingParams(temperature=1.5, seed=number, logit_bias=_SHORT)
    grammar = grammar_of(schema)
    return tokens(f"r{number}", _PROMPT, _MOST_TOKENS, hot, ignore_eos=False, grammar=grammar)
