"""Keep the thoughts of a free answer to a budget."""

from typing import Protocol

from appliance.constraints.thought import Marks
from appliance.constraints.vocabulary import LINE_ENDS, Vocabulary
from appliance.constraints.words import Words, allow, forbid

# A model may open one thought after the other, though each is ended at once, and never answer.
_MOST_IN_A_ROW = 3


class Counter(Protocol):
    """Follows an answer as whoever reads it does. One instance per answer."""

    @property
    def is_open(self) -> bool:
        """Say whether the next token is one of a thought, whatever it is."""

    @property
    def may_open(self) -> bool:
        """Say whether the next token may open a thought, or complete what does."""

    @property
    def opens_anywhere(self) -> bool:
        """Say whether a thought's opening is one wherever it stands, not only in a new line."""

    @property
    def num_thought(self) -> int:
        """The tokens of all thoughts so far."""

    @property
    def num_in_a_row(self) -> int:
        """The thoughts since anything else was said."""

    def push(self, token: bytes) -> None:
        """Take the next token."""


class BudgetGuide:
    """Lets a free answer think for so many tokens, in one thought or in several; see Guide.

    What is open then is ended by the model's own mark, and every thought that begins later at once:
    its opening may come, but no token that holds more. After some thoughts with no word of answer
    between them no further one may begin until there is one. All else is allowed.
    """

    error = ""

    def __init__(
        self,
        vocabulary: Vocabulary,
        counter: Counter,
        marks: Marks,
        *,
        budget: int,
        ends: frozenset[int],
        hidden: frozenset[int],
    ) -> None:
        """`ends` end the answer, `hidden` are no part of the text that is read."""
        self._vocabulary = vocabulary
        self._counter = counter
        self._marks = marks
        self._budget = budget
        self._ends = ends
        self._hidden = hidden
        self._tail = b""
        self._num_forced = 0

    @property
    def can_wait(self) -> bool:
        """Say whether the token after the next may be any; see Guide."""
        counter = self._counter
        if self._left > 1:
            return True
        if counter.is_open or counter.may_open or self._is_barred:
            return False
        opening = self._marks.opening
        return not self._vocabulary.can_surprise(opening, is_free=counter.opens_anywhere)

    def take(self, token: int) -> bool:
        """Go on with the token that was drawn; say whether it ends the answer."""
        if token in self._ends:
            return True
        counter = self._counter
        is_forced = counter.is_open and self._left < 1
        text = b"" if token in self._hidden else self._vocabulary.token_bytes(token)
        counter.push(text)
        self._tail = (self._tail + text)[-len(self._marks.opening) :]
        self._num_forced = self._num_forced + 1 if is_forced and counter.is_open else 0
        return False

    def matcher(self) -> None:
        """Return None, since there is no grammar; see Guide."""

    def amend(self, words: Words) -> None:
        """Make of a full mask the next token's."""
        if self._left > 0:
            return
        if self._counter.is_open:
            closing = self._marks.closing_ids
            words[:] = 0
            allow(words, [closing[self._num_forced % len(closing)]])
        elif self._is_barred:
            forbid(words, self._vocabulary.going_towards(self._marks.opening))
        elif self._counter.may_open:
            opening = self._marks.opening
            forbid(words, self._vocabulary.going_beyond(opening, self._tail, LINE_ENDS))

    @property
    def _left(self) -> int:
        return self._budget - self._counter.num_thought

    @property
    def _is_barred(self) -> bool:
        """Say whether nothing but thoughts came for too long."""
        return self._counter.num_in_a_row >= _MOST_IN_A_ROW and self._left < 1
