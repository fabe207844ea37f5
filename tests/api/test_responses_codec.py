"""A Responses body asks for what it says, or is refused by the name of the field."""

from typing import Any

import pytest

from appliance.api.openai.refusal import refused_fields
from appliance.api.openai.responses.codec import check_body
from appliance.api.openai.responses.wire import ResponsesBody
from appliance.chat.request import Message, Structure, Thinking, Tool, ToolChoice
from appliance.errors import InvalidRequest
from tests.api.responses import chat_request, decode_body, validated
from tests.api.responses import parts_of as response_parts

TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}
OTHER = {"type": "function", "name": "g", "strict": False}
SPACE = {"type": "namespace", "name": "crm", "description": "", "tools": [TOOL, OTHER]}


def test_earlier_items_come_before_those_of_the_body() -> None:
    earlier = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]

    request = chat_request(earlier, input="c", instructions="now")

    assert request.messages == (
        Message("system", "now"),
        Message("user", "a"),
        Message("assistant", "b"),
        Message("user", "c"),
    )


def test_limits_sampling_and_thinking_are_read() -> None:
    request = chat_request(
        max_output_tokens=5,
        temperature=0.5,
        top_p=0.25,
        seed=3,
        stop="x",
        reasoning={"effort": "low"},
        chat_template_kwargs={"a": 1},
    )

    assert (request.max_tokens, request.limit_param) == (5, "max_output_tokens")
    assert (request.clamps_max_tokens, request.stop) == (False, ("x",))
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.5, 0.25, 3)
    assert request.thinking == Thinking(effort="low", param="reasoning.effort")
    assert request.template_kwargs == {"a": 1}
    assert request.unserved == ()


def test_tools_are_offered() -> None:
    request = chat_request(tools=[TOOL, OTHER], parallel_tool_calls=False)

    assert request.tools == (Tool("f", "d", {"type": "object"}), Tool("g", strict=False))
    assert request.tool_choice == ToolChoice("auto")
    assert not request.allows_parallel_calls


@pytest.mark.parametrize(
    "kind", ["web_search", "web_search_preview_2025_03_11", "image_generation"]
)
def test_tool_that_need_not_be_called_is_not_passed_on(kind: str) -> None:
    body = decode_body(tools=[{"type": kind, "external_web_access": False}, TOOL])

    envelope, _ = response_parts(body)
    assert [tool.name for tool in chat_request(tools=body.tools).tools] == ["f"]
    assert [tool["type"] for tool in envelope.response("queued", [])["tools"]] == ["function"]


@pytest.mark.parametrize(
    ("wish", "choice", "names"),
    [
        ("none", ToolChoice("none"), ["f", "g"]),
        ("required", ToolChoice("required"), ["f", "g"]),
        ({"type": "function", "name": "g"}, ToolChoice("named", "g"), ["f", "g"]),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]},
            ToolChoice("auto"),
            ["g"],
        ),
    ],
)
def test_tool_choice_is_read(wish: object, choice: ToolChoice, names: list[str]) -> None:
    fields: dict[str, Any] = {"tools": [TOOL, OTHER], "tool_choice": wish}

    request = chat_request(**fields)

    assert (request.tool_choice, request.unserved) == (choice, ())
    assert [tool.name for tool in request.tools] == names
    envelope, _ = response_parts(decode_body(**fields))
    assert validated(envelope.response("queued", []))["tool_choice"] == wish


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"top_logprobs": 0}, None),
        ({"include": ["message.output_text.logprobs"]}, 0),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 3}, 3),
        ({"top_logprobs": 3}, 3),
    ],
)
def test_logprobs_come_when_asked_for(fields: dict[str, Any], expected: int | None) -> None:
    assert chat_request(**fields).logprobs == expected


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("text.verbosity", {"text": {"verbosity": "low"}}),
        ("reasoning.context", {"reasoning": {"context": "all_turns"}}),
        ("guided_whitespace_pattern", {"guided_whitespace_pattern": " "}),
        (
            "stream_options.include_obfuscation",
            {"stream": True, "stream_options": {"include_obfuscation": True}},
        ),
    ],
)
def test_field_not_served_yet_is_named(name: str, fields: dict[str, Any]) -> None:
    assert chat_request(**fields).unserved == (name,)
    envelope, _ = response_parts(decode_body(**fields))
    validated(envelope.response("queued", []))


def test_neutral_values_ask_for_nothing() -> None:
    neutral = {name: values[0] for name, values in refused_fields(ResponsesBody).items() if values}

    request = chat_request(
        **neutral,
        text={"format": {"type": "text"}, "verbosity": "medium"},
        reasoning={"effort": None, "summary": None, "context": "auto", "mode": "standard"},
        service_tier="auto",
        safety_identifier="s",
        prompt_cache_key="k",
        user="u",
        max_tool_calls=3,
    )

    assert request == chat_request()


@pytest.mark.parametrize(
    "name", ["conversation", "prompt", "truncation", "moderation", "context_management"]
)
def test_what_is_not_here_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_body(decode_body(**{name: {"odd": 1}}))

    assert refusal.value.param == name


def test_functions_of_a_namespace_are_offered_under_both_names() -> None:
    body = decode_body(tools=[SPACE | {"name": "mcp__crm__"}, TOOL])

    envelope, _ = response_parts(body)

    names = [tool.name for tool in chat_request(tools=body.tools).tools]
    assert names == ["mcp__crm__f", "mcp__crm__g", "f"]
    shown = validated(envelope.response("queued", []))["tools"]
    assert [tool["type"] for tool in shown] == ["namespace", "function"]
    assert [tool["name"] for tool in shown[0]["tools"]] == ["f", "g"]


def test_tool_of_a_namespace_that_cannot_be_called_is_named() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        chat_request(tools=[SPACE | {"tools": [TOOL, {"type": "custom", "name": "c"}]}])

    assert refusal.value.param == "tools[0].tools[1].type"


def test_call_into_a_namespace_has_one_name_each_turn() -> None:
    call = {"type": "function_call", "call_id": "c", "arguments": "{}"}

    request = chat_request(input=[call | {"name": "f", "namespace": "crm"}], tools=[SPACE])

    assert request.messages[0].tool_calls[0].name == request.tools[0].name == "crm__f"


@pytest.mark.parametrize(
    ("form", "structure"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, Structure("object", param="text.format")),
        (
            {"type": "json_schema", "name": "a", "schema": {"type": "null"}},
            Structure("schema", {"type": "null"}, "text.format.schema"),
        ),
        (
            {"type": "json_schema", "name": "a", "schema": {}, "strict": False},
            Structure("schema", {}, "text.format.schema", is_strict=False),
        ),
    ],
)
def test_form_of_the_text_is_read(form: dict[str, Any], structure: Structure | None) -> None:
    fields: dict[str, Any] = {"text": {"format": form}}

    assert chat_request(**fields).structure == structure
    envelope, _ = response_parts(decode_body(**fields))
    assert validated(envelope.response("queued", []))["text"]["format"] == form


def test_strict_function_and_budget_of_thought_are_read() -> None:
    request = chat_request(tools=[TOOL | {"strict": True}], thinking_token_budget=16)

    assert [tool.strict for tool in request.tools] == [True]
    assert request.thinking.budget == 16
