"""Thoughts, calls and several choices in Chat Completions: one grammar, streamed or not."""

from typing import Any

import httpx
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.contract.http import PATH, chat_body, read_events

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("weather", "now")]
CALLS = [("weather", '{"city": "Köln", "days": [1, 2]}'), ("now", "{}")]


def ask(http: httpx.Client, model: str, text: str, **fields: object) -> ChatCompletion:
    response = http.post(PATH, json=chat_body(text, **fields) | {"model": model})
    assert response.status_code == 200, response.text
    return ChatCompletion.model_validate(response.json())


def stream(http: httpx.Client, model: str, text: str, **fields: object) -> list[Any]:
    """Return the chunks of a stream that ends as it should; each is of the official shape."""
    response = http.post(PATH, json=chat_body(text, stream=True, **fields) | {"model": model})
    *chunks, done = read_events(response.text)[0]
    assert done == "[DONE]"
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    return chunks


def reasons(chunks: list[Any], index: int = 0) -> list[str | None]:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return [choice["finish_reason"] for choice in choices if choice["index"] == index]


def deltas(chunks: list[Any]) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


@pytest.mark.parametrize("model", ["plain", "thinker", "caller", "agent"])
@pytest.mark.parametrize(
    ("text", "limit", "reason"), [("hello", None, "stop"), ("long", 4, "length")]
)
def test_one_chunk_has_the_reason_whatever_is_parsed(
    http: httpx.Client, model: str, text: str, limit: int | None, reason: str
) -> None:
    fields = {"tools": TOOLS, "max_tokens": limit}

    *others, last = reasons(stream(http, model, text, **fields))

    assert (last, set(others)) == (reason, {None})
    assert ask(http, model, text, **fields).choices[0].finish_reason == reason


def test_thought_has_both_names(http: httpx.Client) -> None:
    message = ask(http, "agent", "twice", tools=TOOLS).choices[0].message.model_dump()
    streamed = deltas(stream(http, "agent", "twice", tools=TOOLS))

    assert message["reasoning_content"] == message["reasoning"] == "it is sunny"
    for name in ("reasoning_content", "reasoning"):
        assert "".join(delta.get(name, "") for delta in streamed) == "it is sunny"


def test_calls_are_the_same_streamed_and_whole(http: httpx.Client) -> None:
    choice = ask(http, "agent", "twice", tools=TOOLS).choices[0]
    chunks = stream(http, "agent", "twice", tools=TOOLS)

    whole = [call.model_dump()["function"] for call in choice.message.tool_calls or ()]
    pieces = [call for delta in deltas(chunks) for call in delta.get("tool_calls", ())]
    added: list[dict[str, str]] = [{}, {}]
    for piece in pieces:
        call, fields = added[piece["index"]], piece["function"]
        call |= {"name": fields.get("name", call.get("name"))}
        call["arguments"] = call.get("arguments", "") + fields["arguments"]
    assert [(call["name"], call["arguments"]) for call in whole] == CALLS
    assert [(call["name"], call["arguments"]) for call in added] == CALLS
    assert choice.finish_reason == reasons(chunks)[-1] == "tool_calls"


def test_only_the_first_piece_of_a_call_names_it(http: httpx.Client) -> None:
    chunks = stream(http, "agent", "twice", tools=TOOLS)

    pieces = [call for delta in deltas(chunks) for call in delta.get("tool_calls", ())]
    assert [piece["index"] for piece in pieces] == sorted(piece["index"] for piece in pieces)
    for index in (0, 1):
        first, *rest = [piece for piece in pieces if piece["index"] == index]
        assert first["id"].startswith("call_") and first["type"] == "function"
        assert first["function"]["name"] == CALLS[index][0]
        assert {tuple(piece) for piece in rest} == {("index", "function")}
        assert {tuple(piece["function"]) for piece in rest} == {("arguments",)}


def test_answer_of_calls_alone_has_no_content(http: httpx.Client) -> None:
    message = ask(http, "agent", "only", tools=TOOLS).choices[0].message

    assert message.content is None
    assert message.tool_calls is not None and len(message.tool_calls) == 1


@pytest.mark.parametrize("fields", [{}, {"tools": TOOLS, "tool_choice": "none"}])
def test_calls_that_nobody_offered_are_text(http: httpx.Client, fields: dict[str, Any]) -> None:
    choice = ask(http, "caller", "only", **fields).choices[0]

    assert choice.message.content == '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    assert (choice.message.tool_calls, choice.finish_reason) == (None, "stop")


def test_single_call_is_all_that_is_wanted(http: httpx.Client) -> None:
    choice = ask(http, "agent", "twice", tools=TOOLS, parallel_tool_calls=False).choices[0]

    assert [call.model_dump()["function"]["name"] for call in choice.message.tool_calls or ()] == [
        "weather"
    ]
    assert choice.finish_reason == "tool_calls"


def test_every_choice_is_whole(http: httpx.Client) -> None:
    fields = {"n": 3, "tools": TOOLS}

    answer = ask(http, "agent", "twice", **fields)
    chunks = stream(http, "agent", "twice", **fields)

    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    ids = {call.id for choice in answer.choices for call in choice.message.tool_calls or ()}
    assert len(ids) == 6, "every call has an id of its own"
    for index in range(3):
        *others, last = reasons(chunks, index)
        assert (last, set(others)) == ("tool_calls", {None})
    assert answer.usage is not None and answer.usage.prompt_tokens == 1


@pytest.mark.parametrize("n", [1, 2])
def test_usage_comes_last_and_counts_every_choice(http: httpx.Client, n: int) -> None:
    fields = {"n": n, "tools": TOOLS}
    whole = ask(http, "agent", "twice", **fields).usage

    *chunks, last = stream(http, "agent", "twice", stream_options={"include_usage": True}, **fields)

    assert whole is not None and whole.completion_tokens_details is not None
    assert whole.completion_tokens == 7 * n
    assert whole.completion_tokens_details.reasoning_tokens == 2 * n
    assert last["choices"] == [] and last["usage"]["completion_tokens"] == 7 * n
    assert {chunk["usage"] for chunk in chunks} == {None}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_history_with_thoughts_and_calls_is_accepted(http: httpx.Client, name: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "only"},
        {"role": "assistant", "content": None, name: "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "hello"},
    ]
    response = http.post(PATH, json={"model": "agent", "messages": messages, "tools": TOOLS})

    assert response.json()["choices"][0]["message"]["content"] == "Hello."
