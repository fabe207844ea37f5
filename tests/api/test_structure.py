"""What the fields of OpenAI's dialects want an answer to be, and which of them are refused."""

from typing import Any

import msgspec
import pytest

from appliance.api.body import fault
from appliance.api.openai.chat.codec import to_chat_request
from appliance.api.openai.chat.wire import ChatBody
from appliance.api.openai.completion.codec import to_chat_requests
from appliance.api.openai.completion.wire import CompletionBody
from appliance.chat.request import Structure
from appliance.errors import InvalidRequest

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
NAMED = {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}
LAX = {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": False}}
NAMED_PLACE = "response_format.json_schema.schema"


def structure_of(**fields: object) -> Structure | None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | fields
    try:
        return to_chat_request(msgspec.convert(body, ChatBody)).structure
    except msgspec.ValidationError as error:
        raise fault(error) from error


@pytest.mark.parametrize(
    ("fields", "structure"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, Structure("object")),
        ({"response_format": NAMED}, Structure("schema", SCHEMA, NAMED_PLACE)),
        ({"response_format": LAX}, Structure("schema", SCHEMA, NAMED_PLACE, is_strict=False)),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            Structure("schema", SCHEMA, "response_format.schema"),
        ),
        ({"guided_json": SCHEMA}, Structure("schema", SCHEMA, "guided_json")),
        ({"guided_json": '{"type": "null"}'}, Structure("schema", {"type": "null"}, "guided_json")),
        ({"guided_regex": "a+"}, Structure("regex", "a+", "guided_regex")),
        ({"guided_choice": ["a", "b"]}, Structure("choice", ("a", "b"), "guided_choice")),
        ({"guided_grammar": "root ::= x"}, Structure("grammar", "root ::= x", "guided_grammar")),
        ({"json_schema": SCHEMA}, Structure("schema", SCHEMA, "json_schema")),
        ({"json_schema": '{"type": "null"}'}, Structure("schema", {"type": "null"}, "json_schema")),
        ({"regex": "a+"}, Structure("regex", "a+", "regex")),
        ({"grammar": "root ::= x"}, Structure("grammar", "root ::= x", "grammar")),
        ({"ebnf": "root ::= x"}, Structure("grammar", "root ::= x", "ebnf")),
        ({"grammar": "", "json_schema": "", "guided_regex": ""}, None),
        (
            {"structured_outputs": {"json": SCHEMA}},
            Structure("schema", SCHEMA, "structured_outputs.json"),
        ),
        (
            {"structured_outputs": {"choice": ["a"], "json_object": False}},
            Structure("choice", ("a",), "structured_outputs.choice"),
        ),
        (
            {"structured_outputs": {"json_object": True}},
            Structure("object", param="structured_outputs.json_object"),
        ),
        (
            {"structured_outputs": {"regex": "a"}, "guided_regex": "a"},
            Structure("regex", "a", "structured_outputs.regex"),
        ),
    ],
)
def test_form_of_the_answer_is_read(fields: dict[str, Any], structure: Structure | None) -> None:
    assert structure_of(**fields) == structure


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"type": "object"}}},
            "response_format.json_schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": "x"}}},
            NAMED_PLACE,
        ),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": "[]"}, "guided_json"),
        ({"guided_regex": 1}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["a"] * 5_001}, "guided_choice"),
        ({"json_schema": "{"}, "json_schema"),
        ({"grammar": "root ::= x", "ebnf": "root ::= y"}, "ebnf"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs"),
        ({"structured_outputs": {"json": "nope"}}, "structured_outputs.json"),
        ({"structured_outputs": {"regex": "a", "json": SCHEMA}}, "structured_outputs"),
        ({"response_format": NAMED, "guided_regex": "a"}, "guided_regex"),
        ({"guided_choice": ["a"], "guided_regex": "a"}, "guided_choice"),
        ({"guided_json": {}, "response_format": NAMED}, "guided_json"),
    ],
)
def test_malformed_or_contradicting_forms_are_refused_by_name(
    fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest, match=param.replace(".", r"\.")) as refusal:
        structure_of(**fields)

    assert refusal.value.param == param


@pytest.mark.parametrize("name", ["structural_tag", "whitespace_pattern", "disable_any_whitespace"])
def test_finer_points_that_nothing_honours_are_named(name: str) -> None:
    fields = {"regex": "a", name: True}
    body = {"model": "m", "messages": [{"role": "user"}], "structured_outputs": fields}

    request = to_chat_request(msgspec.convert(body, ChatBody))

    assert request.unserved == (f"structured_outputs.{name}",)


def test_completions_have_a_form_too() -> None:
    body = msgspec.convert({"model": "m", "prompt": "a", "grammar": "root ::= x"}, CompletionBody)

    (request,) = to_chat_requests(body)

    assert request.structure == Structure("grammar", "root ::= x", "grammar")
