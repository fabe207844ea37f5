"""Read Chat Completions, the grammar of its stream included."""

from tests.dialect.answer import (
    TOOLS,
    Answer,
    Call,
    Dialect,
    Event,
    Json,
    parse_arguments,
    read_events,
    tool_schema,
)


def _ask(text: str, fields: Json) -> Json:
    functions = [{"name": name, "parameters": tool_schema()} for name in TOOLS]
    tools = [{"type": "function", "function": function} for function in functions]
    messages = [{"role": "user", "content": text}]
    return {"model": "chat", "messages": messages, "tools": tools, **fields}


def read_whole(body: Json) -> Answer:
    """Return what a whole answer of one choice says."""
    assert body["object"] == "chat.completion"
    (choice,) = body["choices"]
    message = choice["message"]
    calls = message.get("tool_calls") or ()
    assert message["role"] == "assistant"
    assert message["content"] is not None or calls, "an answer without anything"
    assert message.get("reasoning") == message.get("reasoning_content")
    return Answer(
        text=message["content"] or "",
        thought=message.get("reasoning_content") or "",
        calls=tuple(_call(call["function"]) for call in calls),
        finish=choice["finish_reason"],
        usage=_usage(body["usage"]),
        ids=tuple(call["id"] for call in calls),
    )


def read_stream(raw: str) -> Answer:
    """Return what a stream of one choice says: one role, one end, then the usage, then [DONE]."""
    events = read_events(raw)
    assert events[-1] == Event(None, "[DONE]")
    chunks = [event.data for event in events[:-1]]
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    *chunks, last = chunks
    assert last["choices"] == []
    choices = [chunk["choices"][0] for chunk in chunks]
    assert all(chunk.get("usage") is None for chunk in chunks)
    *rest, end = choices
    assert all(choice["finish_reason"] is None for choice in rest)
    assert end["delta"] == {}
    deltas = [choice["delta"] for choice in rest]
    assert [delta.get("role") for delta in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    return _fold(deltas, end["finish_reason"], _usage(last["usage"]))


def _fold(deltas: list[Json], finish: str, usage: tuple[int, int]) -> Answer:
    texts = [delta["content"] for delta in deltas if delta.get("content")]
    thoughts = [delta["reasoning_content"] for delta in deltas if delta.get("reasoning_content")]
    assert thoughts == [delta["reasoning"] for delta in deltas if delta.get("reasoning")]
    names: list[Json] = []
    arguments: list[list[str]] = []
    for call in [call for delta in deltas for call in delta.get("tool_calls") or ()]:
        if call["index"] == len(names):
            assert call["id"] and call["type"] == "function" and call["function"]["name"]
            names.append({"id": call["id"], "name": call["function"]["name"]})
            assert call["function"]["arguments"] == ""
            arguments.append([])
        else:
            assert call["index"] == len(names) - 1
            assert "id" not in call and "name" not in call["function"]
            arguments[-1].append(call["function"]["arguments"])
    pairs = list(zip(names, arguments, strict=True))
    return Answer(
        text="".join(texts),
        thought="".join(thoughts),
        calls=tuple(Call(call["name"], parse_arguments("".join(each))) for call, each in pairs),
        finish=finish,
        usage=usage,
        ids=tuple(call["id"] for call in names),
        deltas=(*texts, *thoughts, *(piece for each in arguments for piece in each)),
    )


def _call(function: Json) -> Call:
    return Call(function["name"], parse_arguments(function["arguments"]))


def _usage(usage: Json) -> tuple[int, int]:
    prompt, answer = usage["prompt_tokens"], usage["completion_tokens"]
    assert usage["total_tokens"] == prompt + answer
    return prompt, answer


CHAT = Dialect(
    "chat",
    "/v1/chat/completions",
    _ask,
    read_whole,
    read_stream,
    {"stream": True, "stream_options": {"include_usage": True}},
)
