"""Define every frame between the gateway and the text process; both sides decode strictly.

Framing is `appliance.channel`'s. Every Configure and Render carries a job id of the gateway's
choice, and gets exactly one answer with that id; Cancel gets none of its own. Counting tokens is
a Render, too.
"""

from typing import Any, Literal

import msgspec

from appliance.chat.request import Message

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
    """Make prompt ids of a conversation; answered by Rendered, TooLong or RenderFailed.

    More than `limit_tokens` ids are refused, most often without counting them all.
    """

    job: int
    model: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()
    template_kwargs: dict[str, Any] = {}
    limit_tokens: int | None = None


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Nobody waits for this Render any more: leave it as soon as possible. May come too late."""

    job: int


class Fault(msgspec.Struct, frozen=True):
    """A SourceError as facts."""

    source: str
    reason: str


class Configured(msgspec.Struct, frozen=True, tag="configured"):
    """The model can be rendered for, or `fault` says why not."""

    job: int
    fault: Fault | None = None


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The template of this job runs from now on; no other job's does."""

    job: int


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """The template of this job has ended, well or not; its answer follows."""

    job: int


class Rendered(msgspec.Struct, frozen=True, tag="rendered"):
    """The prompt's token ids, special tokens included; never empty."""

    job: int
    ids: list[int]


class TooLong(msgspec.Struct, frozen=True, tag="too_long"):
    """The prompt has more ids than the limit: exactly, or at least, `prompt_tokens`."""

    job: int
    limit_tokens: int
    prompt_tokens: int
    is_at_least: bool


class RenderFailed(msgspec.Struct, frozen=True, tag="render_failed"):
    """Why there are no ids; `message` may be shown to the caller."""

    job: int
    kind: FailureKind
    message: str
    param: str | None = None


ToText = Configure | Forget | Render | Cancel
FromText = Configured | Started | Stopped | Rendered | TooLong | RenderFailed


def to_text_decoder() -> msgspec.msgpack.Decoder[ToText]:
    """Return a decoder for frames that the gateway sends."""
    return msgspec.msgpack.Decoder(ToText)


def from_text_decoder() -> msgspec.msgpack.Decoder[FromText]:
    """Return a decoder for frames that the text process sends."""
    return msgspec.msgpack.Decoder(FromText)
