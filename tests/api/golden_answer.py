"""Read golden answers; `python -m tests.api.golden_answer` writes them anew, for you to check.

A file has four parts between rulers: the request's body, the events of its choices, the answer in
one piece (laid out), and the stream, byte for byte.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from appliance.api.anthropic.codec import message_body
from appliance.api.anthropic.stream import MessagesCodec
from appliance.api.anthropic.wire import MessagesBody
from appliance.api.openai.chat.codec import chat_completion, to_chat_request
from appliance.api.openai.chat.stream import ChatStreamCodec
from appliance.api.openai.chat.wire import ChatBody
from appliance.api.openai.choice import AnswerHead, usage_wanted
from appliance.api.openai.completion.codec import completion, to_chat_requests
from appliance.api.openai.completion.stream import CompletionStreamCodec
from appliance.api.openai.completion.wire import CompletionBody
from appliance.api.openai.responses.stream import ResponseStreamCodec, fold_answer
from appliance.api.openai.responses.wire import ResponsesBody
from appliance.api.sse import EventCodec
from appliance.chat.event import (
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from tests.api.responses import parts_of

FOLDER = Path(__file__).parent / "golden"
NAMES = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("*/*.txt"))
_RULER = re.compile(r"^-{3,}$\n", re.MULTILINE)

Event = tuple[int, GenerationEvent]
Written = tuple[dict[str, Any], EventCodec]


def read(name: str) -> tuple[list[str], list[str]]:
    """Return a case's answer and stream as they are made, and as they should be."""
    body, events, *expected = _RULER.split((FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
    told = [_event(*fields) for fields in yaml.safe_load(events)]
    usage = _usage([event for _, event in told])
    answer, codec = _DIALECTS[name.partition("/")[0]](body, told, usage)
    text = msgspec.json.format(msgspec.json.encode(answer)).decode()
    stream = codec.opening(usage) + b"".join(codec.events([each], index) for index, each in told)
    return [f"{text}\n", (stream + codec.ending(usage)).decode()], expected


def _chat(raw: str, events: list[Event], usage: Usage) -> Written:
    body = msgspec.json.decode(raw, type=ChatBody)
    request, n = to_chat_request(body), body.n or 1
    head = AnswerHead("chatcmpl-r1", body.model, 7, "fp")
    choices, has_logprobs = _by_choice(events, n), request.logprobs is not None
    answer = chat_completion(head, choices, usage, has_logprobs=has_logprobs)
    return answer, ChatStreamCodec(head, num_choices=n, include_usage=usage_wanted(body))


def _completion(raw: str, events: list[Event], usage: Usage) -> Written:
    body = msgspec.json.decode(raw, type=CompletionBody)
    requests, n = to_chat_requests(body), body.n or 1
    head = AnswerHead("cmpl-r1", body.model, 7, "fp")
    echoes = [str(each.prompt) if body.echo else "" for each in requests for _ in range(n)]
    choices, has_logprobs = _by_choice(events, len(echoes)), body.logprobs is not None
    answer = completion(head, choices, usage, echoes=echoes, has_logprobs=has_logprobs)
    return answer, CompletionStreamCodec(head, echoes=echoes, include_usage=usage_wanted(body))


def _responses(raw: str, events: list[Event], usage: Usage) -> Written:
    body = msgspec.json.decode(raw, type=ResponsesBody)
    _, answer = fold_answer(*parts_of(body), [event for _, event in events], usage)
    return answer, ResponseStreamCodec(*parts_of(body), lambda status, answer: None)


def _messages(raw: str, events: list[Event], usage: Usage) -> Written:
    body = msgspec.json.decode(raw, type=MessagesBody)
    shows = body.thinking is None or body.thinking.display != "omitted"
    whole = message_body("r1", body.model, [event for _, event in events], shows_thoughts=shows)
    return whole, MessagesCodec("r1", body.model, shows_thoughts=shows)


_DIALECTS: dict[str, Callable[[str, list[Event], Usage], Written]] = {
    "chat": _chat,
    "completion": _completion,
    "messages": _messages,
    "responses": _responses,
}


def _by_choice(events: list[Event], num_choices: int) -> list[list[GenerationEvent]]:
    return [[event for at, event in events if at == index] for index in range(num_choices)]


def _usage(events: list[GenerationEvent]) -> Usage:
    used = [event.usage for event in events if isinstance(event, Finished)]
    return Usage(
        used[0].prompt_tokens,
        sum(each.completion_tokens for each in used),
        used[0].cached_tokens,
        sum(each.reasoning_tokens for each in used),
    )


def _event(choice: int, kind: str, value: Any, logprobs: Any = None) -> Event:  # noqa: ANN401
    match kind:
        case "text":
            tokens = None if logprobs is None else tuple(map(_token, logprobs))
            return choice, TextDelta(value, tokens)
        case "thought":
            return choice, ReasoningDelta(value)
        case "call":
            return choice, msgspec.convert(value, ToolCallDelta)
        case "finish":
            return choice, msgspec.convert(value, Finished)
    raise KeyError(kind)


def _token(fields: dict[str, Any]) -> TokenLogprob:
    """Build a token from its text, or from its bytes where they are no text."""
    token = fields["token"]
    data = token.encode() if isinstance(token, str) else bytes(token)
    return TokenLogprob(data, fields["logprob"], tuple(map(_token, fields.get("top", ()))))


def _rewrite() -> None:
    for name in NAMES:
        file = FOLDER / f"{name}.txt"
        body, events, *_ = _RULER.split(file.read_text(encoding="utf-8"))
        made, _ = read(name)
        file.write_text("---\n".join([body, events, *made]), encoding="utf-8")


if __name__ == "__main__":
    _rewrite()
