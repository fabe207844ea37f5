"""Name what a generation yields: text, then exactly one Finished, always last."""

from typing import Literal

import msgspec

FinishReason = Literal["stop", "length"]


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


class TextDelta(msgspec.Struct, frozen=True):
    """More of the answer's text; never empty, never half a character."""

    text: str


class Finished(msgspec.Struct, frozen=True):
    """The end of a generation that did not fail; failures are raised."""

    reason: FinishReason
    usage: Usage


GenerationEvent = TextDelta | Finished
