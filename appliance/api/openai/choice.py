"""Hold what Chat Completions and Completions share: the two dialects that answer with choices."""

import time
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from appliance import __version__
from appliance.api.errors import openai_error
from appliance.api.openai.refusal import Refusable, neutral
from appliance.api.openai.sampling import MOST_TOKENS, GenerationFields
from appliance.chat.event import (
    Finished,
    GenerationEvent,
    TextDelta,
    TokenLogprob,
    Usage,
)
from appliance.errors import InvalidRequest

MOST_CHOICES = 128
_LEAST_LOGPROB = -9999.0
_FINGERPRINT = f"vllm-mlx-{__version__}"

_json = msgspec.json.Encoder()


class StreamOptions(msgspec.Struct):
    """What a stream brings beside text."""

    include_usage: bool | None = None


class ChoiceFields(GenerationFields, kw_only=True):
    """What the bodies of both dialects may say."""

    max_tokens: Annotated[int, Meta(ge=1, le=MOST_TOKENS)] | None = None
    n: Annotated[int, Meta(ge=1, le=MOST_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    service_tier: Annotated[Refusable, neutral("auto", "default")] = UNSET
    store: Annotated[Refusable, neutral(False)] = UNSET
    # Those of vLLM that would change the answer.
    allowed_token_ids: Annotated[Refusable, neutral()] = UNSET
    bad_words: Annotated[Refusable, neutral([])] = UNSET
    include_stop_str_in_output: Annotated[Refusable, neutral(False)] = UNSET
    length_penalty: Annotated[Refusable, neutral(1)] = UNSET
    logits_processors: Annotated[Refusable, neutral([])] = UNSET
    prompt_logprobs: Annotated[Refusable, neutral()] = UNSET
    return_token_ids: Annotated[Refusable, neutral(False)] = UNSET
    return_tokens_as_token_ids: Annotated[Refusable, neutral(False)] = UNSET
    skip_special_tokens: Annotated[Refusable, neutral(True)] = UNSET
    truncate_prompt_tokens: Annotated[Refusable, neutral()] = UNSET
    use_beam_search: Annotated[Refusable, neutral(False)] = UNSET


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What every chunk of an answer says; `model` is the name the caller asked for.

    `id` is the one clients see; `created` is in Unix seconds; `fingerprint` changes when answers
    to the same request and seed may.
    """

    id: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))
    fingerprint: str = _FINGERPRINT

    def fields(self, kind: str) -> dict[str, Any]:
        """Return the fields that an object of this kind begins with."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


def usage_wanted(body: ChoiceFields) -> bool:
    """Say whether a stream shall bring usage; raises InvalidRequest for options of no stream."""
    options = body.stream_options
    if options is not None and not body.stream:
        raise InvalidRequest("stream_options needs stream to be true.", param="stream_options")
    return bool(options and options.include_usage)


def usage_body(usage: Usage) -> dict[str, Any]:
    """Return token counts in OpenAI's shape."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def read_choice(events: list[GenerationEvent]) -> tuple[str, tuple[TokenLogprob, ...], Finished]:
    """Return a whole choice's text, the tokens of it that came with one, and its end."""
    finished = events[-1]
    assert isinstance(finished, Finished)
    deltas = [event for event in events if isinstance(event, TextDelta)]
    tokens = tuple(chain.from_iterable(delta.logprobs or () for delta in deltas))
    return "".join(delta.text for delta in deltas), tokens, finished


def end_fields(finished: Finished) -> dict[str, str]:
    """Return why a choice ended; `stop_reason`, as vLLM has it, is the stop string that cut it.

    It is `repetition` for an answer that the model's repetition guard ended.
    """
    fields: dict[str, str] = {"finish_reason": finished.reason}
    if finished.stop is not None or finished.is_repetition:
        fields["stop_reason"] = finished.stop or "repetition"
    return fields


def finite_logprob(token: TokenLogprob) -> float:
    """Return a token's log-probability as JSON can say it."""
    return max(token.logprob, _LEAST_LOGPROB)


class ChoiceStream:
    """What the streams of both dialects have in common; the fixed text is made once.

    `_heads` begin a chunk, for each choice, up to what follows the choice's number; `_end` is
    what follows the choice. A dialect sets `_text_heads`, which go on to where the text begins,
    and `_tail`, what comes after a text that nothing is said of.
    """

    _text_heads: list[bytes]
    _tail: bytes

    def __init__(self, first: dict[str, Any], num_choices: int, *, include_usage: bool) -> None:
        """`first` are the fields that every chunk begins with."""
        self._include_usage = include_usage
        self._head = b"data: " + _json.encode(first)[:-1]
        self._heads = [
            b'%b,"choices":[{"index":%d,' % (self._head, index) for index in range(num_choices)
        ]
        self._end = (b'}],"usage":null' if include_usage else b"}]") + b"}\n\n"

    def events(self, events: list[GenerationEvent], choice: int = 0) -> bytes:
        """Return one chunk an event."""
        head, tail = self._text_heads[choice], self._tail
        return b"".join(
            [
                head + _json.encode(event.text) + tail
                if type(event) is TextDelta and event.logprobs is None
                else self._rarer(event, choice)
                for event in events
            ]
        )

    def _rarer(self, event: GenerationEvent, choice: int) -> bytes:
        """Return the chunk of an event that is no plain text."""
        raise NotImplementedError

    def heartbeat(self) -> bytes:
        """Return a comment, which clients ignore."""
        return b": keep-alive\n\n"

    def ending(self, usage: Usage) -> bytes:
        """Return the usage, if asked for, and [DONE]."""
        last = b""
        if self._include_usage:
            tokens = _json.encode(usage_body(usage))
            last = self._head + b',"choices":[],"usage":' + tokens + b"}\n\n"
        return last + b"data: [DONE]\n\n"

    def error(self, error: BaseException) -> bytes:
        """Return the error event; nothing follows it."""
        return b"data: " + _json.encode(openai_error(error)) + b"\n\n"
