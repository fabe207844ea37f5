"""Name what a generation yields: text, then exactly one Finished, always last."""

from typing import Literal

import msgspec

FinishReason = Literal["stop", "length"]


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


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


class Finished(msgspec.Struct, frozen=True):
    """The end of a generation that did not fail; failures are raised."""

    reason: FinishReason
    usage: Usage


GenerationEvent = TextDelta | Finished
