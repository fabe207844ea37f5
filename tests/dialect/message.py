"""Read Messages, the grammar of its stream included."""

from dataclasses import replace

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

FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
}
DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}


def _ask(text: str, fields: Json) -> Json:
    tools = [{"name": name, "input_schema": tool_schema()} for name in TOOLS]
    thinking = {"type": "adaptive"}
    body = {"model": "chat", "max_tokens": 10_000, "tools": tools, "thinking": thinking}
    return {**body, "messages": [{"role": "user", "content": text}], **fields}


def read_whole(body: Json) -> Answer:
    """Return what a whole message says."""
    assert (body["type"], body["role"]) == ("message", "assistant")
    blocks = body["content"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    assert all(block["signature"] for block in thoughts)
    usage = body["usage"]
    cached = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
    return Answer(
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        thought="".join(block["thinking"] for block in thoughts),
        calls=tuple(Call(call["name"], call["input"]) for call in calls),
        finish=FINISHES[body["stop_reason"]],
        usage=(usage["input_tokens"] + cached, usage["output_tokens"]),
        kinds=tuple(block["type"] for block in blocks),
        ids=tuple(call["id"] for call in calls),
    )


def read_stream(raw: str) -> Answer:
    """Return what a stream says: a start, blocks one after the other, one delta, one stop."""
    events = [event for event in read_events(raw) if event.name != "ping"]
    assert all(event.name == event.data["type"] for event in events)
    start, *between, end, stop = events
    names = [start.name, end.name, stop.name]
    assert names == ["message_start", "message_delta", "message_stop"]
    message = start.data["message"]
    assert (message["content"], message["stop_reason"]) == ([], None)
    deltas: list[str] = []
    blocks: list[Json] = []
    is_open = False
    for event in between:
        is_open = _take(event, blocks, deltas, is_open=is_open)
    assert not is_open
    usage = message["usage"] | {key: n for key, n in end.data["usage"].items() if n is not None}
    whole = message | end.data["delta"] | {"content": blocks, "usage": usage}
    return replace(read_whole(_parse_inputs(whole)), deltas=tuple(deltas))


def _take(event: Event, blocks: list[Json], deltas: list[str], *, is_open: bool) -> bool:
    """Add one event to the blocks; say whether the last block is open after it."""
    data = event.data
    assert is_open == (event.name != "content_block_start")
    if event.name == "content_block_start":
        blocks.append(dict(data["content_block"]))
        if data["content_block"]["type"] == "tool_use":
            assert blocks[-1]["input"] == {}
            blocks[-1]["input"] = ""
    assert data["index"] == len(blocks) - 1
    if event.name == "content_block_delta":
        _add_delta(blocks[-1], data["delta"], deltas)
    return event.name != "content_block_stop"


def _add_delta(block: Json, delta: Json, deltas: list[str]) -> None:
    if delta["type"] == "signature_delta":
        assert block["type"] == "thinking" and not block.get("signature")
        block["signature"] = delta["signature"]
        return
    kind, key = DELTAS[block["type"]]
    assert delta["type"] == kind and not block.get("signature")
    place = "input" if kind == "input_json_delta" else key
    block[place] += delta[key]
    deltas.append(delta[key])


def _parse_inputs(message: Json) -> Json:
    """Return a message with what its inputs say; a call that broke is left out, as in a whole."""
    blocks = []
    for block in message["content"]:
        if block["type"] != "tool_use":
            blocks.append(block)
        elif not isinstance(found := parse_arguments(block["input"] or "{}"), str):
            blocks.append(block | {"input": found})
    return message | {"content": blocks}


MESSAGE = Dialect("messages", "/v1/messages", _ask, read_whole, read_stream)
