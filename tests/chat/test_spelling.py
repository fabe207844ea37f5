from typing import Any, Literal

import pytest

from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.spelling import message_value, message_values, tool_value
from appliance.chat.traits import Spelling

THOUGHTFUL = Message("assistant", "x", thought="t")


def called(arguments: str, spelling: Spelling) -> object:
    call = Message("assistant", tool_calls=(ToolCall("c", "look", arguments),))
    return message_value(call, spelling)["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    ("thought", "expected"),
    [
        (None, {"content": "x"}),
        ("thinking", {"content": "x", "thinking": "t"}),
        ("blocks", {"content": [{"type": "thinking", "thinking": "t"},
                                {"type": "text", "text": "x"}]}),
    ],
)  # fmt: skip
def test_thought_stands_where_the_template_reads_it(
    thought: str | None, expected: dict[str, Any]
) -> None:
    value = message_value(THOUGHTFUL, Spelling(thought=thought))

    assert value == {"role": "assistant"} | expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("object", [{"a": 1}, "[1]", "no json", {}]),
        ("mapping", [{"a": 1}, {"arguments": "[1]"}, {"arguments": "no json"}, {}]),
        ("text", ['{"a": 1}', "[1]", "no json", "{}"]),
    ],
)
def test_arguments_are_as_the_template_wants_them(
    arguments: Literal["object", "mapping", "text"], expected: list[object]
) -> None:
    texts = ['{"a":1}', "[1]", "no json", ""]

    assert [called(text, Spelling(arguments=arguments)) for text in texts] == expected


@pytest.mark.parametrize("text", [r'{"a": "\ud83d"}', '{"a": NaN}', '{"a":' * 10**4])
def test_arguments_that_no_prompt_can_hold_stay_as_they_came(text: str) -> None:
    assert called(text, Spelling()) == text
    assert called(text, Spelling(arguments="text")) == text


def test_call_without_text_can_have_null_content() -> None:
    call = Message("assistant", tool_calls=(ToolCall("c", "look", "{}"),))
    spelling = Spelling(has_null_content=True)

    assert message_value(call, spelling)["content"] is None
    assert message_value(Message("user"), spelling)["content"] == ""


def test_short_ids_are_nine_letters_or_digits_and_still_agree() -> None:
    spelling = Spelling(ids="short")
    calls = (
        ToolCall("call_1", "f", ""),
        ToolCall("call_2", "f", ""),
        ToolCall("abcDEF123", "f", ""),
    )

    value = message_value(Message("assistant", tool_calls=calls), spelling)
    result = message_value(Message("tool", "r", tool_call_id="call_2"), spelling)

    ids = [call["id"] for call in value["tool_calls"]]
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert ids[0] != ids[1] == result["tool_call_id"]
    assert ids[2] == "abcDEF123"


def test_numbered_ids_count_all_calls_and_results_agree() -> None:
    look, read = ToolCall("call_x", "look", ""), ToolCall("call_y", "read", "")
    messages = (
        Message("assistant", tool_calls=(look, read)),
        Message("tool", "r", tool_call_id="call_y"),
        Message("assistant", tool_calls=(look,)),
        Message("tool", "r", tool_call_id="call_x"),
        Message("tool", "r", tool_call_id="call_stray"),
    )

    values = message_values(messages, Spelling(ids="numbered"))

    called = [call["id"] for value in values for call in value.get("tool_calls", ())]
    answered = [value["tool_call_id"] for value in values if "tool_call_id" in value]
    assert called == ["functions.look:0", "functions.read:1", "functions.look:2"]
    assert answered == ["functions.read:1", "functions.look:2", "call_stray"]
    assert message_values(messages[:2], Spelling(ids="numbered")) == values[:2]


def test_tool_is_filled_and_flattened_if_the_template_wants_that() -> None:
    nested = {"type": "object", "properties": {"a": {"type": "string"}, "b": True}}
    tool = Tool("look", parameters={"type": "object", "properties": {"in": nested}})

    value = tool_value(tool, Spelling(fills_tools=True, tools="flat"))

    inner = nested | {"description": "", "properties": {
        "a": {"type": "string", "description": ""}, "b": True}}  # fmt: skip
    parameters = {"type": "object", "properties": {"in": inner}}
    function = {"name": "look", "description": "", "parameters": parameters}
    assert value == function | {"type": "function", "function": function}


def test_bare_tool_stays_bare_if_the_template_does_not_mind() -> None:
    assert tool_value(Tool("look", strict=False), Spelling()) == {
        "type": "function",
        "function": {"name": "look"},
    }
