"""Say what a way of writing calls must be able to do, so that one splitter reads them all."""

from enum import Enum, auto
from typing import Protocol

from appliance.parsing.grammar.rules import Rules
from appliance.parsing.parsed import Parsed, Text, Thought
from appliance.parsing.toolbox import Toolbox

MOST_HELD = 64
"""How many characters beside its opening and its name may pass before a call is one for certain."""


class Stage(Enum):
    """How far the reading of a call has come."""

    HEAD = auto()
    """It may still turn out to be text; nothing of it was given away."""
    BODY = auto()
    """It is a call; the rest of it comes."""
    ASIDE = auto()
    """Behind a call stands what is none: all that the next `read` takes is text."""
    OVER = auto()
    """It is read."""
    TEXT = auto()
    """It is no call."""


class CallReader(Protocol):
    """Reads one call, or a list of them, from behind its opening mark on. One instance each.

    What it finds it appends to the `pieces` that it was made with. In stage HEAD it takes nothing:
    `read` returns `at`. Time is linear in the text, however it is split.
    """

    @property
    def stage(self) -> Stage:
        """How far it has come; after the last `read` of a text OVER or TEXT."""

    @property
    def is_broken(self) -> bool:
        """Say whether what was given away turned out to be no sound call."""

    @property
    def opens(self) -> type[Text] | type[Thought] | None:
        """What goes on where it is OVER, for marks that open no call; None behind a call."""

    def passes(self, text: str) -> bool:
        """Take `text`, if all of it is at once more of the arguments; else it is to be read.

        Only for text that is not empty, with nothing left of what was before.
        """

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Read on from `at` and return how far it came; what is left is wanted again, with more.

        `is_last`: nothing follows `text`.
        """


class CallSyntax(Protocol):
    """One way of writing calls; a declaration that never changes."""

    @property
    def closings(self) -> tuple[str, ...]:
        """Marks that mean nothing where only white space is between a call and them."""

    @property
    def text_opening(self) -> str | None:
        """What the model itself writes before a text in a call's place, nothing if it is empty.

        None: its calls have an opening, so that they may stand in a text.
        """

    def openings(self, tools: Toolbox) -> tuple[str, ...]:
        """Return the marks at which a call may begin, wherever they stand in the text."""

    def starts(self, tools: Toolbox) -> tuple[str, ...]:
        """Return the marks that begin one only where nothing but white space stands before them."""

    def reader(self, opening: str, tools: Toolbox, pieces: list[Parsed]) -> CallReader:
        """Return a reader for what stands behind `opening`."""

    def grammar(self, rules: Rules, tools: Toolbox, *, is_single: bool) -> str:
        """Add rules for one call (or for one or more, not `is_single`) of `tools` as the model
        itself writes them, openings and closings included; return the name of the whole's rule."""
