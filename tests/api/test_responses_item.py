"""Items become messages: every kind of them, without losing the conversation."""

from typing import Any

import pytest

from appliance.api.openai.responses.item import Conversation
from appliance.chat.request import Media, Message, ToolCall
from appliance.chat.seal import seal
from appliance.errors import InvalidRequest

USER = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "18C"}


def messages(*items: dict[str, Any], instructions: str | None = None) -> tuple[Message, ...]:
    conversation = Conversation(instructions)
    for index, item in enumerate(items):
        conversation.add(item, f"input[{index}]")
    return conversation.messages()


def test_instructions_come_first_and_developers_stay_where_they_are() -> None:
    developer = {"type": "message", "role": "developer", "content": "b"}

    assert messages(developer, USER, developer, instructions="a") == (
        Message("system", "a"),
        Message("developer", "b"),
        Message("user", "hi"),
        Message("developer", "b"),
    )


@pytest.mark.parametrize(
    ("role", "part"),
    [
        ("user", {"type": "input_text", "text": "a"}),
        ("user", {"type": "text", "text": "a"}),
        ("assistant", {"type": "output_text", "text": "a", "annotations": [], "logprobs": []}),
        ("assistant", {"type": "refusal", "refusal": "a"}),
        ("system", {"type": "input_text", "text": "a"}),
    ],
)
def test_parts_of_text_are_lines(role: str, part: dict[str, Any]) -> None:
    (message,) = messages({"type": "message", "role": role, "content": [part, part]})

    assert (message.role, message.content) == (role, "a\na")


@pytest.mark.parametrize("content", [None, []])
def test_turn_without_content_stays_a_turn(content: object) -> None:
    assert messages({"role": "user", "content": content}) == (Message("user"),)
    assert messages({"role": "assistant", "content": content}) == (Message("assistant", ""),)


def test_media_stand_where_they_stood() -> None:
    parts = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "https://x/a.png", "detail": "auto"},
        {"type": "input_file", "file_data": "YWE=", "filename": "a.pdf"},
        {"type": "input_file", "file_url": "https://x/b.pdf"},
        {"type": "input_audio", "input_audio": {"data": "YWE=", "format": "wav"}},
        {"type": "input_text", "text": "that"},
    ]

    (message,) = messages({"role": "user", "content": parts})

    place = "input[0].content"
    assert message == Message(
        "user",
        "see\nthat",
        media=(
            Media("image", "https://x/a.png", 3, f"{place}[1]"),
            Media("file", "data:application/octet-stream;base64,YWE=", 3, f"{place}[2]"),
            Media("file", "https://x/b.pdf", 3, f"{place}[3]"),
            Media("audio", "data:audio/wav;base64,YWE=", 3, f"{place}[4]"),
        ),
    )


def test_thought_text_and_calls_are_one_turn() -> None:
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}
    text = {"type": "message", "role": "assistant", "content": "wait"}

    assert messages(USER, thought, text, CALL, CALL | {"call_id": "c2"}, RESULT) == (
        Message("user", "hi"),
        Message(
            "assistant",
            "wait",
            tool_calls=(ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "f", '{"a":1}')),
            thought="hm",
        ),
        Message("tool", "18C", name="f", tool_call_id="c1"),
    )


@pytest.mark.parametrize(
    ("fields", "thought"),
    [
        ({"summary": []}, None),
        ({"summary": [{"type": "summary_text", "text": "a"}], "content": None}, "a"),
        ({"summary": [], "content": [{"text": "a"}, {"text": "b"}]}, "a\nb"),
        ({"summary": [{"text": "short"}], "encrypted_content": seal("long")}, "long"),
        ({"summary": [{"text": "short"}], "encrypted_content": "gAAAA-foreign"}, "short"),
        ({"encrypted_content": None, "status": None}, None),
    ],
)
def test_thought_comes_back_in_every_form(fields: dict[str, Any], thought: str | None) -> None:
    (message,) = messages({"type": "reasoning", "id": "rs_1", **fields}, CALL)

    assert message.thought == thought
    assert len(message.tool_calls) == 1


def test_thoughts_that_unpack_to_too_much_are_refused() -> None:
    packed = {"type": "reasoning", "encrypted_content": seal("x" * 2**20)}

    with pytest.raises(InvalidRequest, match="too long"):
        messages(*[packed] * 5)


def test_new_thought_begins_a_new_turn() -> None:
    thought = {"type": "reasoning", "content": [{"text": "hm"}]}
    text = {"role": "assistant", "content": "a"}

    assert messages(thought, text, thought, text) == (Message("assistant", "a", thought="hm"),) * 2


def test_result_may_be_parts_with_an_image() -> None:
    parts = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:x"}]

    _, result = messages(CALL, RESULT | {"output": parts})

    media = (Media("image", "data:x", 3, "input[1].output[1]"),)
    assert result == Message("tool", "see", name="f", tool_call_id="c1", media=media)


@pytest.mark.parametrize(
    ("call", "result", "expected"),
    [
        pytest.param(
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "***"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
            ("patch", '{"input":"***"}', "done"),
            id="custom",
        ),
        pytest.param(
            {"type": "local_shell_call", "id": "l", "call_id": "c", "action": {"command": ["ls"]}},
            {"type": "local_shell_call_output", "id": "l", "output": "a b"},
            ("local_shell", '{"action":{"command":["ls"]}}', "a b"),
            id="known by its item",
        ),
        pytest.param(
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}, "status": "x"},
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a"}]},
            ("shell", '{"action":{"commands":["ls"]}}', '[{"stdout":"a"}]'),
            id="a structure",
        ),
    ],
)
def test_foreign_calls_stay_calls(
    call: dict[str, Any], result: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    asked, told = messages(call, result)

    name, arguments, output = expected
    assert asked.tool_calls == (ToolCall("c", name, arguments),)
    assert told == Message("tool", output, name=name, tool_call_id="c")


def test_call_that_its_service_answered_brings_its_result() -> None:
    call = {"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "output": "ok"}

    asked, told = messages(call)

    assert asked.tool_calls == (ToolCall("m", "f", "{}"),)
    assert told.content == "ok"


@pytest.mark.parametrize("kind", ["web_search_call", "mcp_list_tools", "odd", "image_generation"])
def test_what_nobody_answers_here_is_left_out(kind: str) -> None:
    assert messages(USER, {"type": kind, "id": "w", "action": {}}, USER) == (
        Message("user", "hi"),
        Message("user", "hi"),
    )


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({}, "input[0].type"),
        ({"type": 5}, "input[0].type"),
        ({"type": "compaction", "encrypted_content": "x"}, "input[0]"),
        ({"role": "tool", "content": "a"}, "input[0].role"),
        ({"role": "user", "content": 5}, "input[0].content"),
        ({"role": "user", "content": [{"type": "video"}]}, "input[0].content[0].type"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[0].content[0]"),
        ({"role": "user", "content": [{"type": "input_image"}]}, "input[0].content[0]"),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
            "input[0].content[0].file_id",
        ),
        (CALL | {"name": 5}, "input[0].name"),
        (RESULT | {"output": 5}, "input[0].output"),
        (RESULT | {"call_id": None}, "input[0].call_id"),
        ({"type": "reasoning", "summary": "text"}, "input[0].summary"),
    ],
)
def test_wrong_item_is_named(item: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        messages(item)

    assert refusal.value.param == param
