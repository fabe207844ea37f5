"""What the blocks of a Messages body come to."""

import base64
from typing import Any

import pytest

from appliance.api.anthropic.block import read_messages
from appliance.api.anthropic.codec import to_prompt
from appliance.api.anthropic.wire import Block, WireMessage
from appliance.chat.request import Media, Message
from appliance.chat.request import ToolCall as Call
from appliance.chat.seal import MAX_THOUGHT_BYTES, seal
from appliance.errors import InvalidRequest
from tests.api.message_bodies import assistant, decode_body, read, result, text, user

PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}


@pytest.mark.parametrize(
    ("system", "message"),
    [
        pytest.param("one", Message("system", "one"), id="text"),
        pytest.param([text("one"), text("two")], Message("system", "one\ntwo"), id="blocks"),
        pytest.param([], None, id="no blocks"),
        pytest.param("", None, id="empty"),
        pytest.param([text("x-anthropic-billing-header: cch=1;")], None, id="only volatile"),
        pytest.param(
            [text("x-anthropic-billing-header: cch=1;"), text("Be x-anthropic-a: b")],
            Message("system", "Be x-anthropic-a: b"),
            id="a volatile block",
        ),
        pytest.param(
            "x-anthropic-a: 1\r\n\nx-anthropic-b: 2\nBe brief.\n",
            Message("system", "Be brief.\n"),
            id="volatile lines",
        ),
    ],
)
def test_system_is_read_without_volatile_lines(system: object, message: Message | None) -> None:
    turns = read({"role": "user", "content": "hi"}, system=system)

    assert turns == ((message, Message("user", "hi")) if message else (Message("user", "hi"),))


def test_system_messages_stay_where_they_are() -> None:
    late = {"role": "system", "content": [text("x-anthropic-a: 1\nNow this."), text("And that.")]}

    turns = read(user(text("a"), text("b")), late, {"role": "system", "content": ""})

    assert turns == (Message("user", "a\nb"), Message("system", "Now this.\nAnd that."))


@pytest.mark.parametrize(
    ("block", "message"),
    [
        pytest.param(result("sunny"), Message("tool", "sunny", tool_call_id="call_1"), id="text"),
        pytest.param(
            result([text("a"), text("b")]),
            Message("tool", "a\nb", tool_call_id="call_1"),
            id="list",
        ),
        pytest.param(result([]), Message("tool", "", tool_call_id="call_1"), id="empty list"),
        pytest.param(result(None), Message("tool", "", tool_call_id="call_1"), id="nothing"),
        pytest.param(
            result("no such city", is_error=True),
            Message("tool", "Error: no such city", tool_call_id="call_1"),
            id="error",
        ),
        pytest.param(
            result("<tool_use_error>no</tool_use_error>", is_error=True),
            Message("tool", "<tool_use_error>no</tool_use_error>", tool_call_id="call_1"),
            id="an error that says so",
        ),
        pytest.param(
            result("", is_error=True),
            Message("tool", "Error", tool_call_id="call_1"),
            id="empty error",
        ),
        pytest.param(
            {**result("x"), "tool_use_id": "other-7"},
            Message("tool", "x", tool_call_id="other-7"),
            id="a foreign id",
        ),
    ],
)
def test_tool_result_becomes_a_turn(block: dict[str, Any], message: Message) -> None:
    assert read(user(block)) == (message,)


def test_tool_results_come_before_what_the_user_says() -> None:
    turns = read(user(text("so?"), result("one"), {**result("two"), "tool_use_id": "toolu_2"}))

    assert turns == (
        Message("tool", "one", tool_call_id="call_1"),
        Message("tool", "two", tool_call_id="call_2"),
        Message("user", "so?"),
    )


def test_images_in_tool_results_keep_their_place() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}

    (turn,) = read(user(result([text("a"), image, text("b")], is_error=True)))

    where = "messages[0].content[0].content[1]"
    assert turn.content == "Error: a\nb"
    assert turn.media == (Media("image", "data:image/png;base64,AA", 8, where),)


def test_answers_keep_thoughts_text_and_calls() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [1, "é"]}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "foreign"}

    turns = read(assistant(thought, text("Let me see."), call), assistant(call), assistant())

    calls = (Call("call_1", "f", '{"a":[1,"é"]}'),)
    assert turns == (
        Message("assistant", "Let me see.", tool_calls=calls, thought="hm"),
        Message("assistant", None, tool_calls=calls),
        Message("assistant", ""),
    )


@pytest.mark.parametrize(
    ("block", "thought"),
    [
        pytest.param(
            {"type": "thinking", "thinking": "", "signature": seal("a")}, "a", id="sealed"
        ),
        pytest.param({"type": "redacted_thinking", "data": seal("b")}, "b", id="redacted"),
        pytest.param({"type": "redacted_thinking", "data": "EpQB"}, None, id="not ours"),
        pytest.param({"type": "thinking", "thinking": "", "signature": seal("")}, None, id="none"),
    ],
)
def test_sealed_thought_comes_back(block: dict[str, Any], thought: str | None) -> None:
    (turn,) = read(assistant(block, text("so")))

    assert (turn.thought, turn.content) == (thought, "so")


def test_thoughts_together_have_a_limit() -> None:
    block = {"type": "redacted_thinking", "data": seal("a" * (MAX_THOUGHT_BYTES - 1))}

    for messages in ([assistant(block, block)], [assistant(block), assistant(block)]):
        with pytest.raises(InvalidRequest, match="too long"):
            read(*messages)


@pytest.mark.parametrize(
    ("source", "content"),
    [
        pytest.param(
            {"type": "text", "media_type": "text/plain", "data": "x"}, "T\nC\nx", id="text"
        ),
        pytest.param({"type": "content", "content": "x"}, "T\nC\nx", id="content"),
        pytest.param({"type": "content", "content": [text("x")]}, "T\nC\nx", id="blocks"),
        pytest.param(
            {
                "type": "base64",
                "media_type": "text/markdown",
                "data": base64.b64encode("é".encode()).decode(),
            },
            "T\nC\né",
            id="base64 of text",
        ),
    ],
)
def test_documents_of_text_are_text(source: dict[str, Any], content: str) -> None:
    document = {"type": "document", "source": source, "title": "T", "context": "C"}

    assert read(user(document)) == (Message("user", content),)


@pytest.mark.parametrize(
    ("block", "media"),
    [
        pytest.param(
            {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
            ("image", "https://a/b.png"),
            id="image",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
            ("file", "https://a/b.pdf"),
            id="document",
        ),
        pytest.param(
            {"type": "document", "source": PDF},
            ("file", "data:application/pdf;base64,JVBERi0="),
            id="pdf",
        ),
    ],
)
def test_media_keep_their_place(block: dict[str, Any], media: tuple[Any, str]) -> None:
    request = to_prompt(decode_body(messages=[user(text("ab"), block, text("c"))]))

    place = "messages[0].content[1]"
    assert request.messages == (Message("user", "ab\nc", media=(Media(*media, 2, place),)),)


@pytest.mark.parametrize(
    ("block", "content"),
    [
        pytest.param(
            {"type": "search_result", "source": "https://a", "title": "T", "content": [text("x")]},
            "T\nhttps://a\nx",
            id="search result",
        ),
        pytest.param({"type": "later", "text": "x", "content": [text("y")]}, "x\ny", id="unknown"),
        pytest.param({"type": "later", "content": {"type": "error"}}, "", id="unknown, no text"),
        pytest.param({"type": "container_upload", "file_id": "f"}, "", id="no text"),
    ],
)
def test_other_blocks_give_what_text_they_have(block: dict[str, Any], content: str) -> None:
    assert read(user(block)) == (Message("user", content),)


def test_deep_blocks_are_refused() -> None:
    deep: dict[str, Any] = text("x")
    for _ in range(20):
        deep = {"type": "later", "content": [deep]}

    with pytest.raises(InvalidRequest, match="too deeply"):
        read(user(deep))


def test_deep_arguments_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    block = Block("tool_use", id="a", name="f", input=deep)

    with pytest.raises(InvalidRequest, match=r"messages\[0\].content\[0\].input: is nested"):
        read_messages([WireMessage("assistant", [block])])
