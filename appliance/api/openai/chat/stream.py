"""Write a Chat Completions answer as a stream. Pure."""

import msgspec

from appliance.api.openai.chat.codec import call_opening, logprobs_body
from appliance.api.openai.choice import AnswerHead, ChoiceStream, end_fields
from appliance.chat.event import (
    Finished,
    GenerationEvent,
    ReasoningDelta,
    ToolCallDelta,
    Usage,
)

_json = msgspec.json.Encoder()


class ChatStreamCodec(ChoiceStream):
    """Chat Completions as a stream. One instance per request."""

    def __init__(
        self, head: AnswerHead, *, num_choices: int = 1, include_usage: bool = False
    ) -> None:
        first = head.fields("chat.completion.chunk")
        super().__init__(first, num_choices, include_usage=include_usage)
        self._delta_heads = [each + b'"delta":{' for each in self._heads]
        self._text_heads = [each + b'"content":' for each in self._delta_heads]
        self._tail = b'},"logprobs":null,"finish_reason":null' + self._end

    def opening(self, usage: Usage) -> bytes:
        """Return the chunk of each choice that names the role."""
        role = b'"role":"assistant","content":""'
        return b"".join([head + role + self._tail for head in self._delta_heads])

    def _rarer(self, event: GenerationEvent, choice: int) -> bytes:
        return self._delta_heads[choice] + self._rest(event)

    def _rest(self, event: GenerationEvent) -> bytes:
        if isinstance(event, ReasoningDelta):
            text = _json.encode(event.text)
            return b'"reasoning_content":' + text + b',"reasoning":' + text + self._tail
        if isinstance(event, ToolCallDelta):
            return b'"tool_calls":[' + _call_delta(event) + b"]" + self._tail
        if isinstance(event, Finished):
            return b'},"logprobs":null,' + _json.encode(end_fields(event))[1:-1] + self._end
        text = b'"content":' + _json.encode(event.text)
        logprobs = _json.encode(logprobs_body(event.logprobs or ()))
        return text + b'},"logprobs":' + logprobs + b',"finish_reason":null' + self._end


def _call_delta(delta: ToolCallDelta) -> bytes:
    """Return more of a call; only its first piece has id, type and name."""
    if delta.id is not None:
        opening = call_opening(delta.id, delta.name or "")
        return _json.encode({"index": delta.index, **opening})
    arguments = _json.encode(delta.arguments)
    return b'{"index":%d,"function":{"arguments":%b}}' % (delta.index, arguments)
