"""Check that an answer that a family writes is read alike, however its text is cut."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox
from tests.parsing.proof.call_set import CallSet, draw_call_sets
from tests.parsing.proof.family import Family
from tests.parsing.proof.reading import Heard, hear, meant, state

_NUM_SHORTEST = 5
_SHORT = 64
_APART = 48
"""Characters between two cuts: more than any mark has, so that one of them knows nothing of the
other."""


class Answer(NamedTuple):
    """One answer as its family writes it; `begin` makes a reader for it."""

    call_set: CallSet
    text: str
    begin: Callable[[], AnswerParser]

    def read(self, *pieces: str) -> Heard:
        return hear(self.begin(), pieces)

    def follow(self, *pieces: str) -> tuple[Heard, object]:
        """Return what is read, and where the reader stands behind the last of the pieces."""
        parser, heard = self.begin(), Heard()
        for piece in pieces:
            heard.add(parser.feed(piece))
        stand = state(parser)
        heard.add(parser.end())
        return heard, stand


def answers(each: Family, count: int) -> Iterator[Answer]:
    """Yield so many answers; the same for the same family."""
    for call_set in draw_call_sets(each.name, count, each.reach):
        text = each.write(call_set)
        toolbox, begun = Toolbox(call_set.tools), each.begun(call_set, text)
        yield Answer(call_set, text, partial(AnswerParser, each.form, toolbox, begun=begun))


def check_cuts(each: Family, count: int) -> None:
    """Read answers whole, by characters, and cut at every position.

    Where the text stands whole, the reader stands as behind its last character.
    """
    for it in answers(each, count):
        text = it.text
        heard, stand = it.follow(text)

        assert heard.is_sound, text
        assert heard.meaning() == meant(it.call_set, sorts=each.reach.sorts_keys), text
        assert it.follow(*text) == (heard, stand), text
        for pieces in _every_cut(text):
            assert it.read(*pieces) == heard, pieces


def _every_cut(text: str) -> Iterator[list[str]]:
    """Yield the pieces of a text so that each position is a cut once.

    A short text is in two pieces each time; in a long one several cuts are far apart.
    """
    apart = len(text) if len(text) <= _SHORT else _APART
    for first in range(1, min(apart + 1, len(text))):
        edges = [0, *range(first, len(text), apart), len(text)]
        yield [text[start:end] for start, end in itertools.pairwise(edges)]


def check_pairs(each: Family, count: int) -> None:
    """Read the shortest of so many answers in three pieces, cut everywhere."""
    for it in sorted(answers(each, count), key=lambda it: len(it.text))[:_NUM_SHORTEST]:
        heard = it.read(it.text)
        for first, second in itertools.combinations(range(1, len(it.text)), 2):
            pieces = it.text[:first], it.text[first:second], it.text[second:]

            assert it.read(*pieces) == heard, pieces


def check_states(each: Family, count: int) -> None:
    """Compare where a reader stands behind each character with where one feed leaves it."""
    for it in answers(each, count):
        slow = it.begin()
        for end in range(1, len(it.text) + 1):
            slow.feed(it.text[end - 1])

            quick = it.begin()
            quick.feed(it.text[:end])
            assert state(quick) == state(slow), it.text[:end]
