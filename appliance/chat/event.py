"""Name what a generation yields: thoughts, calls, text, then exactly one Finished, always last."""

from typing import Literal

import msgspec

FinishReason = Literal["stop", "length", "tool_calls"]


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one request; `reasoning_tokens` are those of the completion's thoughts."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class TokenLogprob(msgspec.Struct, frozen=True):
    """A token of the answer: the bytes it stands for, and its natural log-probability.

    `top` are the likeliest tokens in its place, in falling order, without tops of their own.
    """

    token: bytes
    logprob: float
    top: "tuple[TokenLogprob, ...]" = ()


class TextDelta(msgspec.Struct, frozen=True):
    """More of the answer's text, never half a character.

    `logprobs` None: nobody asked for them; else the tokens whose text begins in this piece or
    began in one before, in the answer's order. Only with them may `text` be empty.
    """

    text: str
    logprobs: tuple[TokenLogprob, ...] | None = None


class ReasoningDelta(msgspec.Struct, frozen=True):
    """More of what the model thinks before it answers; never empty, never half a character."""

    text: str


class ToolCallDelta(msgspec.Struct, frozen=True):
    """More of the answer's call number `index`, which counts from 0 and only grows.

    The first of a call has its `id` and `name`, and no arguments; those that follow have more of
    the arguments' JSON text, which is valid as a whole unless the model broke it.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class Finished(msgspec.Struct, frozen=True):
    """The end of a generation that did not fail; failures are raised.

    `tool_calls`: the answer has calls and was not cut short. `stop` is the caller's stop string
    that ended the answer, if one did. `is_repetition`: it was ended for going round in circles.
    """

    reason: FinishReason
    usage: Usage
    stop: str | None = None
    is_repetition: bool = False


Delta = TextDelta | ReasoningDelta | ToolCallDelta
GenerationEvent = Delta | Finished
