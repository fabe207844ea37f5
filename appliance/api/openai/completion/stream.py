"""Write a Completions answer as a stream. Pure."""

import msgspec

from appliance.api.openai.choice import AnswerHead, ChoiceStream, end_fields
from appliance.api.openai.completion.logprob import LogprobWriter
from appliance.chat.event import Finished, GenerationEvent, TextDelta, Usage

_json = msgspec.json.Encoder()


class CompletionStreamCodec(ChoiceStream):
    """Completions as a stream. One instance per request."""

    def __init__(self, head: AnswerHead, *, echoes: list[str], include_usage: bool = False) -> None:
        """`echoes` is the text that comes before each choice's own; one for each choice."""
        first = head.fields("text_completion")
        super().__init__(first, len(echoes), include_usage=include_usage)
        self._echoes = echoes
        self._text_heads = [each + b'"text":' for each in self._heads]
        self._logprobs = [LogprobWriter() for _ in echoes]
        self._tail = b',"logprobs":null,"finish_reason":null' + self._end

    def opening(self, usage: Usage) -> bytes:
        """Return the prompts that are to be echoed."""
        echoes = enumerate(self._echoes)
        return b"".join(self.events([TextDelta(echo)], index) for index, echo in echoes if echo)

    def _rarer(self, event: GenerationEvent, choice: int) -> bytes:
        text, logprobs, end = b'""', b"null", b'"finish_reason":null'
        if isinstance(event, Finished):
            end = _json.encode(end_fields(event))[1:-1]
        elif isinstance(event, TextDelta):
            text = _json.encode(event.text)
            logprobs = _json.encode(self._logprobs[choice].body(event.logprobs or ()))
        rest = b',"logprobs":%b,%b' % (logprobs, end)
        return self._text_heads[choice] + text + rest + self._end
