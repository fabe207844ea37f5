"""What a Messages body asks for, and what is refused by name."""

from typing import Any

import msgspec
import pytest

from appliance.api.anthropic.codec import to_chat_request as to_request
from appliance.api.anthropic.codec import to_prompt
from appliance.api.anthropic.wire import CountBody, MessagesBody
from appliance.chat.request import (
    ChatRequest,
    Message,
    Sampling,
    Structure,
    Thinking,
    Tool,
    ToolChoice,
)
from appliance.errors import InvalidRequest
from tests.api.message_bodies import assistant, decode_body, result, text, user

WEATHER = {"name": "weather", "description": "Tell it.", "input_schema": {"type": "object"}}
BAD_TEXT = {"type": "base64", "media_type": "text/plain", "data": "***"}


def to_chat_request(body: MessagesBody) -> ChatRequest:
    return to_request(body, most_tokens=9)


def test_whole_body_is_read() -> None:
    body = decode_body(
        system="Be brief.",
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        stop_sequences=["\n\n", "END"],
        tools=[WEATHER, {"type": "custom", **WEATHER, "name": "other"}],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        thinking={"type": "enabled", "budget_tokens": 1024},
        output_config={"effort": "low"},
        chat_template_kwargs={"style": "odd"},
        metadata={"user_id": "u"},
    )

    assert to_chat_request(body) == ChatRequest(
        model="m",
        messages=(Message("system", "Be brief."), Message("user", "hi")),
        sampling=Sampling(temperature=0.5, top_p=0.9, top_k=4),
        max_tokens=9,
        clamps_max_tokens=True,
        stop=("\n\n", "END"),
        tools=tuple(Tool(name, "Tell it.", {"type": "object"}) for name in ("weather", "other")),
        allows_parallel_calls=False,
        thinking=Thinking(True, "low", is_firm=False, param="output_config.effort", budget=1024),
        template_kwargs={"style": "odd"},
    )


def test_what_steers_other_machines_changes_nothing() -> None:
    marked = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = decode_body(
        messages=[user(text("hi", **marked))],
        service_tier="auto",
        container={"id": "c"},
        context_management={"edits": [{"type": "clear_thinking_20251015"}]},
        mcp_servers=[],
        cache_control=marked["cache_control"],
        inference_geo="eu",
    )

    assert to_chat_request(body) == to_chat_request(decode_body())


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        pytest.param({"type": "auto"}, ToolChoice(), id="auto"),
        pytest.param({"type": "none"}, ToolChoice("none"), id="none"),
        pytest.param({"type": "any"}, ToolChoice("required"), id="any"),
        pytest.param(
            {"type": "tool", "name": "weather"}, ToolChoice("named", "weather"), id="tool"
        ),
    ],
)
def test_tool_choice_is_read(choice: dict[str, str], expected: ToolChoice) -> None:
    request = to_chat_request(decode_body(tools=[WEATHER], tool_choice=choice))

    assert (request.tool_choice, request.unserved) == (expected, ())
    assert request.allows_parallel_calls


@pytest.mark.parametrize(
    ("thinking", "is_enabled", "budget"),
    [
        pytest.param(None, None, None, id="as the model does"),
        pytest.param({"type": "adaptive", "display": "omitted"}, True, None, id="adaptive"),
        pytest.param({"type": "enabled", "budget_tokens": 2000}, True, 2000, id="enabled"),
        pytest.param({"type": "disabled"}, False, None, id="disabled"),
    ],
)
def test_thinking_is_read(thinking: object, is_enabled: bool | None, budget: int | None) -> None:
    wish = to_chat_request(decode_body(thinking=thinking)).thinking

    assert (wish.is_enabled, wish.effort, wish.budget) == (is_enabled, None, budget)


def test_strict_tool_is_read() -> None:
    request = to_chat_request(decode_body(tools=[{**WEATHER, "strict": True}]))

    assert [tool.strict for tool in request.tools] == [True]
    assert request.unserved == ()


JSON = {"type": "json_schema", "schema": {"type": "integer"}}
OTHER_JSON = {"type": "json_schema", "schema": {"type": "string"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"output_config": {"format": JSON}}, "output_config.format.schema"),
        ({"output_format": JSON}, "output_format.schema"),
        ({"output_config": {"format": JSON}, "output_format": JSON}, "output_config.format.schema"),
    ],
)
def test_form_of_the_answer_is_read(fields: dict[str, Any], param: str) -> None:
    request = to_chat_request(decode_body(**fields))

    assert request.structure == Structure("schema", {"type": "integer"}, param)


def test_two_forms_of_the_answer_are_refused() -> None:
    body = decode_body(output_config={"format": JSON}, output_format=OTHER_JSON)

    with pytest.raises(InvalidRequest) as refusal:
        to_chat_request(body)

    assert refusal.value.param == "output_format.schema"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
        ({"tools": [WEATHER, {"type": "web_search_20250305", "name": "w"}]}, "tools[1].type"),
        ({"tools": [{"name": "w"}]}, "tools[0].input_schema"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
        ({"messages": [user(), assistant(text("begun"))]}, "messages[1]"),
        (
            {"messages": [assistant(text("begun")), {"role": "system", "content": "x"}]},
            "messages[0]",
        ),
        ({"system": [{"type": "text"}]}, "system[0].text"),
        ({"messages": [user({"type": "image"})]}, "messages[0].content[0].source"),
        (
            {"messages": [user({"type": "image", "source": {"type": "file"}})]},
            "messages[0].content[0].source.type",
        ),
        (
            {"messages": [user({"type": "document", "source": {"type": "text"}})]},
            "messages[0].content[0].source.data",
        ),
        (
            {"messages": [user({"type": "document", "source": BAD_TEXT})]},
            "messages[0].content[0].source.data",
        ),
        ({"messages": [user({"type": "tool_use"})]}, "messages[0].content[0]"),
        ({"messages": [user({"type": "tool_result"})]}, "messages[0].content[0].tool_use_id"),
        ({"messages": [user(result({"a": 1}))]}, "messages[0].content[0].content"),
        (
            {"messages": [assistant({"type": "tool_use", "id": "a"}), user()]},
            "messages[0].content[0].name",
        ),
        ({"messages": [assistant(result("a")), user()]}, "messages[0].content[0]"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        to_chat_request(decode_body(**fields))

    assert caught.value.param == param
    assert str(caught.value).startswith(param)


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": "true"},
        {"max_tokens": 0},
        {"max_tokens": None},
        {"max_tokens": "9"},
        {"temperature": 1.5},
        {"top_p": 2},
        {"top_k": -1},
        {"stop_sequences": [""]},
        {"stop_sequences": "END"},
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": 5}]},
        {"messages": [{"role": "user", "content": [{"text": "no type"}]}]},
        {"messages": [user(text("x", is_error=1))]},
        {"thinking": {"type": "perhaps"}},
        {"thinking": {"type": "enabled", "budget_tokens": "many"}},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}},
        {"output_config": {"effort": "endless"}},
    ],
)
def test_types_are_strict(fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_body(**fields)


def test_count_needs_no_max_tokens() -> None:
    asked = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'

    request = to_prompt(msgspec.json.decode(asked, type=CountBody))

    assert request.messages == (Message("user", "hi"),)
    with pytest.raises(msgspec.ValidationError, match="max_tokens"):
        msgspec.json.decode(asked, type=MessagesBody)


def test_only_what_the_server_allows_is_cut_where_the_context_ends() -> None:
    allowed, beyond = (to_chat_request(decode_body(max_tokens=most)) for most in (9, 10))

    assert (allowed.max_tokens, allowed.clamps_max_tokens) == (9, True)
    assert (beyond.max_tokens, beyond.clamps_max_tokens) == (10, False)
