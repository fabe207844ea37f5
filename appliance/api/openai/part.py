"""Define the parts of a message that are the same in Chat Completions and in Responses."""

from typing import Annotated

import msgspec
from msgspec import Meta

from appliance.api.content import Content


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text, as Chat Completions calls it."""

    text: str


class InputTextPart(msgspec.Struct, tag_field="type", tag="input_text"):
    """A piece of text, as Responses calls it."""

    text: str


class OutputTextPart(msgspec.Struct, tag_field="type", tag="output_text"):
    """A piece of an earlier answer's text, as Responses calls it."""

    text: str


class RefusalPart(msgspec.Struct, tag_field="type", tag="refusal"):
    """What the assistant refused with."""

    refusal: str


class Audio(msgspec.Struct):
    """A sound: base64, and the name of its format."""

    data: str
    format: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+-]{0,31}$")]


class AudioPart(msgspec.Struct, tag_field="type", tag="input_audio"):
    """A sound."""

    input_audio: Audio


CommonPart = TextPart | InputTextPart | OutputTextPart | RefusalPart | AudioPart


def add_part(content: Content, part: CommonPart, place: str) -> None:
    """Add a part to a message's content; `place` is its path in the body."""
    match part:
        case RefusalPart():
            content.add_text(part.refusal)
        case AudioPart(sound):
            content.add_media("audio", f"data:audio/{sound.format};base64,{sound.data}", place)
        case _:
            content.add_text(part.text)
