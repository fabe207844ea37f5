"""Define every frame between the gateway and the text process; both sides decode strictly.

Framing is `appliance.channel`'s. Every frame but Forget and Cancel carries a job id of the
gateway's choice, and gets exactly one answer with that id. Counting tokens is a Render or an
Encode, too.
"""

from typing import Any, Literal

import msgspec

from appliance.chat.request import Message, Thinking, Tool
from appliance.chat.traits import Traits

FailureKind = Literal["invalid_request", "not_loaded", "cancelled"]


class Configure(msgspec.Struct, frozen=True, tag="configure"):
    """Load a model's tokenizer and templates from `directory`; answered by Configured.

    `template_file` replaces the folder's own templates. Replaces what the model had before.
    """

    job: int
    model: str
    directory: str
    template_file: str | None = None


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """Free what the model had; unknown models are ignored."""

    model: str


class Render(msgspec.Struct, frozen=True, tag="render"):
    """Make prompt ids of a conversation; answered by Rendered, TooLong or TextFailed.

    Values of `template_kwargs` go before those that `thinking` means, and these before `defaults`.
    More than `limit_tokens` ids are refused, most often without counting them all.
    """

    job: int
    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    thinking: Thinking = Thinking()
    template_kwargs: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    limit_tokens: int | None = None


class Encode(msgspec.Struct, frozen=True, tag="encode"):
    """Make ids of a text as it stands; answered by Rendered, TooLong or TextFailed.

    With `suffix` the ids ask for what stands between the text and it. `adds_special` adds what the
    tokenizer puts before or behind a text of its own accord.
    """

    job: int
    model: str
    text: str
    suffix: str | None = None
    adds_special: bool = True
    limit_tokens: int | None = None


class Decode(msgspec.Struct, frozen=True, tag="decode"):
    """Make text of ids, special tokens included; answered by Decoded or TextFailed.

    `is_apart`: a text for each id, in which bytes that are no character read as U+FFFD.
    """

    job: int
    model: str
    ids: list[int]
    is_apart: bool = False


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Nobody waits for this job's answer any more: leave it soon. May come too late."""

    job: int


class Fault(msgspec.Struct, frozen=True):
    """A SourceError as facts."""

    source: str
    reason: str


class Configured(msgspec.Struct, frozen=True, tag="configured"):
    """The model can be rendered for, and its template is as `traits` say; or why not: `fault`."""

    job: int
    fault: Fault | None = None
    traits: Traits = Traits()


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The template of this job runs from now on; no other job's does."""

    job: int


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """The template of this job has ended, well or not; its answer follows."""

    job: int


class Rendered(msgspec.Struct, frozen=True, tag="rendered"):
    """The prompt's token ids, special tokens included, never empty; `tail` is its text's end."""

    job: int
    ids: list[int]
    tail: str = ""


class Decoded(msgspec.Struct, frozen=True, tag="decoded"):
    """The text of all ids, or the texts of each."""

    job: int
    texts: list[str]


class TooLong(msgspec.Struct, frozen=True, tag="too_long"):
    """The prompt has more ids than the limit: exactly, or at least, `prompt_tokens`."""

    job: int
    limit_tokens: int
    prompt_tokens: int
    is_at_least: bool


class TextFailed(msgspec.Struct, frozen=True, tag="text_failed"):
    """Why there are no ids or no text; `message` may be shown to the caller."""

    job: int
    kind: FailureKind
    message: str
    param: str | None = None


TextJob = Render | Encode | Decode
ToText = Configure | Forget | TextJob | Cancel
FromText = Configured | Started | Stopped | Rendered | Decoded | TooLong | TextFailed


def to_text_decoder() -> msgspec.msgpack.Decoder[ToText]:
    """Return a decoder for frames that the gateway sends."""
    return msgspec.msgpack.Decoder(ToText)


def from_text_decoder() -> msgspec.msgpack.Decoder[FromText]:
    """Return a decoder for frames that the text process sends."""
    return msgspec.msgpack.Decoder(FromText)
