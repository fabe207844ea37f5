"""Read Completions, the grammar of its stream included."""

from tests.dialect.answer import Answer, Dialect, Event, Json, read_events


def _ask(text: str, fields: Json) -> Json:
    return {"model": "chat", "prompt": text, "max_tokens": 10_000, **fields}


def read_whole(body: Json) -> Answer:
    """Return what a whole answer of one choice says."""
    assert body["object"] == "text_completion"
    (choice,) = body["choices"]
    return _answer([choice["text"]], choice["finish_reason"], body["usage"])


def read_stream(raw: str) -> Answer:
    """Return what a stream of one choice says: one end, then the usage, then [DONE]."""
    events = read_events(raw)
    assert events[-1] == Event(None, "[DONE]")
    *chunks, last = [event.data for event in events[:-1]]
    assert last["choices"] == []
    choices = [chunk["choices"][0] for chunk in chunks]
    assert all(chunk["object"] == "text_completion" for chunk in chunks)
    assert all(choice["finish_reason"] is None for choice in choices[:-1])
    assert choices[-1]["text"] == ""
    texts = [choice["text"] for choice in choices[:-1]]
    return _answer(texts, choices[-1]["finish_reason"], last["usage"])


def _answer(texts: list[str], finish: str, usage: Json) -> Answer:
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return Answer(
        text="".join(texts),
        thought="",
        calls=(),
        finish=finish,
        usage=(usage["prompt_tokens"], usage["completion_tokens"]),
        deltas=tuple(texts),
    )


COMPLETION = Dialect(
    "completions",
    "/v1/completions",
    _ask,
    read_whole,
    read_stream,
    {"stream": True, "stream_options": {"include_usage": True}},
)
