"""Say what one answer may go on with: the thought's rules, then the grammar."""

from dataclasses import dataclass
from typing import Protocol

from llguidance import LLMatcher

from appliance.constraints.thought import Phase, ThoughtWatch
from appliance.constraints.vocabulary import LINE_ENDS, Vocabulary
from appliance.constraints.words import Words, allow, forbid

# The line ends that a model was taught to put between its thought and its answer.
_MOST_LINE_ENDS = 2
_LINE_END = b"\n"


class Guide(Protocol):
    """What is to be kept to in one answer, and how far it has come. One thread at a time."""

    @property
    def can_wait(self) -> bool:
        """Say whether the token after the next may be any, whatever the next one is."""

    @property
    def error(self) -> str:
        """Why it cannot be followed further; empty if it can."""

    def take(self, token: int) -> bool:
        """Go on with the token that was drawn; say whether it ends the answer."""

    def matcher(self) -> LLMatcher | None:
        """Return what fills the mask before `amend`; None if it is to be full of ones."""

    def amend(self, words: Words) -> None:
        """Make of a mask that is filled the next token's."""


@dataclass(frozen=True)
class Ending:
    """What ends an answer: `own` are the model's end tokens, `others` those of the request.

    Before `min_tokens` neither should, and never those of the model with `ignores_own`.
    """

    own: frozenset[int]
    others: frozenset[int] = frozenset()
    min_tokens: int = 0
    ignores_own: bool = False

    def unwanted(self, num_made: int) -> frozenset[int]:
        """Return the end tokens that should not come after so many tokens."""
        if num_made < self.min_tokens:
            return self.own | self.others
        return self.own if self.ignores_own else frozenset()


class GrammarGuide:
    """Holds an answer to a grammar, and before it a thought to its budget; see Guide.

    The tokens of both kinds that end the answer do so only where the grammar accepts; elsewhere
    those of the request are text like any other. What `ending` does not want still comes where
    nothing else is allowed.
    """

    can_wait = False

    def __init__(
        self,
        vocabulary: Vocabulary,
        ending: Ending,
        matcher: LLMatcher,
        thought: ThoughtWatch | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self._ending = ending
        self._thought = thought
        self._matcher = matcher
        self._num_made = 0
        self._fits_grammar = True
        self._line_ends = 0

    @property
    def phase(self) -> Phase:
        """Where the answer stands."""
        return self._thought.phase if self._thought is not None else Phase.ANSWER

    @property
    def error(self) -> str:
        """Why the grammar cannot be followed further; empty if it can."""
        return self._matcher.get_error()

    def take(self, token: int) -> bool:
        """Go on with a token; see Guide."""
        self._num_made += 1
        is_end = token in self._ending.own or token in self._ending.others
        if is_end and self._may_end():
            return True
        phase = self.phase
        self._watch(token)
        if phase in (Phase.OPENING, Phase.ANSWER):
            self._follow(token)
        return False

    def matcher(self) -> LLMatcher | None:
        """Return the grammar's where it holds; see Guide."""
        is_grammar = self.phase in (Phase.OPENING, Phase.ANSWER) and self._fits_grammar
        return self._matcher if is_grammar else None

    def amend(self, words: Words) -> None:
        """Make of a mask the next token's; see Guide."""
        match self.phase:
            case Phase.OPENING:
                self._amend_opening(words)
            case Phase.THOUGHT:
                self._amend_thought(words)
            case Phase.CLOSING:
                assert self._thought is not None
                words[:] = 0
                allow(words, self._thought.forced[:1])
            case Phase.ANSWER:
                self._amend_answer(words)
        forbid(words, self._ending.unwanted(self._num_made))

    def _watch(self, token: int) -> None:
        """Let the thought's watch see a token, and count the line ends behind a thought."""
        before = self.phase
        if self._thought is None or before is Phase.ANSWER:
            return
        behind = self._thought.push(self._vocabulary.token_bytes(token))
        if before is not Phase.OPENING and self.phase is Phase.ANSWER:
            self._matcher.reset()
            self._fits_grammar = True
            self._line_ends = max(0, _MOST_LINE_ENDS - behind.count(_LINE_END))

    def _follow(self, token: int) -> None:
        matcher = self._matcher
        if self._fits_grammar and matcher.validate_tokens([token]):
            matcher.consume_token(token)
            self._line_ends = 0
        elif self._line_ends:
            self._line_ends -= self._vocabulary.token_bytes(token).count(_LINE_END)
        elif self.phase is Phase.ANSWER:
            matcher.consume_token(token)  # which makes it say what is wrong
        else:
            self._fits_grammar = False

    def _may_end(self) -> bool:
        return self.matcher() is not None and self._matcher.is_accepting()

    def _amend_opening(self, words: Words) -> None:
        assert self._thought is not None
        opening, tail = self._thought.marks.opening, self._thought.tail
        if self._thought.budget == 0:
            # Where the grammar's own text is a thought's opening, it is that alone.
            forbid(words, self._vocabulary.going_beyond(opening, tail, LINE_ENDS))
        else:
            if not self._fits_grammar:
                words[:] = 0
            allow(words, self._vocabulary.longest(self._thought.rest_of_opening))
        self._allow_ends(words)

    def _amend_thought(self, words: Words) -> None:
        assert self._thought is not None
        forbid(words, self._ending.own)
        # What began the answer in the same token would not be bound.
        closing, tail = self._thought.marks.closing, self._thought.tail
        forbid(words, self._vocabulary.going_beyond(closing, tail))

    def _amend_answer(self, words: Words) -> None:
        self._allow_ends(words)
        for count in range(1, self._line_ends + 1):
            allow(words, self._vocabulary.meaning(_LINE_END * count))

    def _allow_ends(self, words: Words) -> None:
        if self._ending.others and self._may_end():
            allow(words, self._ending.others)
