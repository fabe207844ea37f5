"""Read Responses, the grammar of its stream included."""

from dataclasses import replace

from tests.dialect.answer import (
    TOOLS,
    Answer,
    Call,
    Dialect,
    Json,
    parse_arguments,
    read_events,
    tool_schema,
)

ENDINGS = ("response.completed", "response.incomplete", "response.failed")


def _ask(text: str, fields: Json) -> Json:
    tools = [{"type": "function", "name": name, "parameters": tool_schema()} for name in TOOLS]
    return {"model": "chat", "input": text, "tools": tools, **fields}


def read_whole(body: Json) -> Answer:
    """Return what a whole response says."""
    assert body["object"] == "response"
    items = body["output"]
    calls = [item for item in items if item["type"] == "function_call"]
    usage = body["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    return Answer(
        text="".join(_text(item) for item in items if item["type"] == "message"),
        thought="".join(_thought(item) for item in items if item["type"] == "reasoning"),
        calls=tuple(Call(call["name"], parse_arguments(call["arguments"])) for call in calls),
        finish=_finish(body),
        usage=(usage["input_tokens"], usage["output_tokens"]),
        kinds=tuple(item["type"] for item in items),
        ids=tuple(call["call_id"] for call in calls),
    )


def _finish(body: Json) -> str:
    if body["status"] == "incomplete":
        assert body["incomplete_details"] == {"reason": "max_output_tokens"}
        return "length"
    assert body["status"] == "completed" and body.get("error") is None
    return "tool_calls" if any(map(_is_call, body["output"])) else "stop"


def _is_call(item: Json) -> bool:
    return bool(item["type"] == "function_call" and item["status"] == "completed")


def _text(item: Json) -> str:
    assert item["role"] == "assistant"
    return "".join(part["text"] for part in item["content"] if part["type"] == "output_text")


def _thought(item: Json) -> str:
    return "".join(part["text"] for part in item.get("content") or item["summary"])


def read_stream(raw: str) -> Answer:
    """Return what a stream says: two openings, each item from its start to its end, one ending."""
    events = read_events(raw)
    for number, event in enumerate(events):
        assert event.name == event.data["type"]
        assert event.data["sequence_number"] == number
    names = [event.name for event in events]
    assert names[:2] == ["response.created", "response.in_progress"]
    assert [name for name in names if name in ENDINGS] == names[-1:]
    end = events[-1].data["response"]
    opening = events[0].data["response"]
    assert (opening["id"], opening["status"], opening["output"]) == (end["id"], "in_progress", [])
    reader = _ItemReader()
    for event in events[2:-1]:
        reader.take(event.data)
    assert reader.done == end["output"]
    return replace(read_whole(end), deltas=tuple(reader.deltas))


class _ItemReader:
    """Follow items one after the other; each piece of text is told again as a whole at its end."""

    def __init__(self) -> None:
        self.done: list[Json] = []
        self.deltas: list[str] = []
        self._item: Json | None = None
        self._texts: dict[str, str] = {}
        self._open_parts: list[str] = []

    def take(self, data: Json) -> None:
        assert data["output_index"] == len(self.done)
        _, _, kind = data["type"].partition(".")
        if kind == "output_item.added":
            assert self._item is None
            self._item = data["item"]
        elif kind == "output_item.done":
            self._end_item(data["item"])
        else:
            assert self._item is not None and data["item_id"] == self._item["id"]
            self._take_part(kind, data)

    def _take_part(self, kind: str, data: Json) -> None:
        name, _, verb = kind.rpartition(".")
        if verb == "added":
            self._open_parts.append(name)
        elif verb == "delta":
            assert data["delta"], "an empty delta"
            self.deltas.append(data["delta"])
            self._texts[name] = self._texts.get(name, "") + data["delta"]
        elif name.endswith("_part"):
            self._open_parts.remove(name)
        else:
            whole = data["arguments"] if "arguments" in data else data["text"]
            assert self._texts.pop(name, "") == whole

    def _end_item(self, item: Json) -> None:
        assert self._item is not None
        assert (item["id"], item["type"]) == (self._item["id"], self._item["type"])
        assert not self._texts and not self._open_parts, "an item ended before its parts"
        self.done.append(item)
        self._item = None


RESPONSE = Dialect("responses", "/v1/responses", _ask, read_whole, read_stream)
