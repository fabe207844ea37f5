"""Read the questions of the Berkeley Function Calling Leaderboard as calls that are expected."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from appliance.chat.request import Tool
from tests.packages import bfcl_folder
from tests.parsing.proof.call_set import CallSet

CALLING = ("simple_python", "multiple", "parallel", "parallel_multiple")
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


@cache
def read_call_sets(category: str) -> tuple[CallSet, ...]:
    """Return the expected calls of a category, of each argument the first value allowed."""
    answers = {line["id"]: line["ground_truth"] for line in _lines(f"possible_answer/{category}")}
    return tuple(CallSet(_tools(it), tuple(_calls(answers[it["id"]]))) for it in _lines(category))


def _calls(answer: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, _first(given)) for each in answer for name, given in each.items())


@cache
def read_irrelevant() -> tuple[CallSet, ...]:
    """Return answers in prose to questions for which none of the functions is any good."""
    return tuple(map(_prose, _lines("irrelevance")))


def _prose(line: dict[str, Any]) -> CallSet:
    tools = _tools(line)
    question = line["question"][0][-1]["content"]
    named = " or ".join(f"`{tool.name}`" for tool in tools)
    return CallSet(tools, (), before=f"{question}\n\nNeither {named} can tell me that.")


def _lines(name: str) -> Iterator[dict[str, Any]]:
    folder, _, category = name.rpartition("/")
    text = (bfcl_folder() / folder / f"BFCL_v4_{category}.json").read_text()
    return map(json.loads, text.splitlines())


def _tools(line: dict[str, Any]) -> tuple[Tool, ...]:
    return tuple(
        Tool(each["name"], each["description"], _schema(each["parameters"]))
        for each in line["function"]
    )


def _schema(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a schema with the types of JSON, which these have from Python."""
    if isinstance(schema, list):
        return [_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    known = {key: _schema(each) for key, each in schema.items()}
    kind = known.pop("type", "any")
    if isinstance(kind, str) and kind != "any":
        known["type"] = _TYPES.get(kind, kind)
    elif kind != "any":
        known["type"] = kind
    return known


def _first(given: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the first value of each; "" says that it may be left out."""
    return {key: _value(values[0]) for key, values in given.items() if values and values[0] != ""}


def _value(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        return _first(value)
    if isinstance(value, list):
        return [_value(each) for each in value]
    return value
