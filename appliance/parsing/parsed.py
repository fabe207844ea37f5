"""Name what an answer's text is made of, in the order in which it came."""

from enum import Enum, auto

import msgspec


class Text(msgspec.Struct, frozen=True):
    """More of the answer proper; `at` is where it begins in the raw text, in characters."""

    text: str
    at: int


class Thought(msgspec.Struct, frozen=True):
    """More of a thought; `at` is where it begins in the raw text, in characters."""

    text: str
    at: int


class CallOpened(msgspec.Struct, frozen=True):
    """A call begins for certain; `name` is a declared one."""

    name: str


class CallArguments(msgspec.Struct, frozen=True):
    """More of the open call's arguments, as JSON text; never empty."""

    text: str


class CallClosed(msgspec.Struct, frozen=True):
    """The open call ends; its arguments are a JSON object, or `is_sound` is False."""

    is_sound: bool


Parsed = Text | Thought | CallOpened | CallArguments | CallClosed


class Place(Enum):
    """Where what comes next of an answer stands to its thoughts."""

    APART = auto()
    """In a text or a call; a thought may begin, but not before what it begins behind has come."""
    NEAR = auto()
    """Where a thought may begin, or may already be about to."""
    OPENED = auto()
    """At the start of a thought."""
    WITHIN = auto()
    """In a thought, or in what is one unless a mark or a call comes of it."""
