"""Say what one answer may go on with: the thought's rules, then the grammar."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from appliance.constraints.thought import Phase, ThoughtWatch
from appliance.constraints.vocabulary import Vocabulary

# The line ends that a model was taught to put between its thought and its answer.
_MOST_LINE_ENDS = 2
_LINE_END = b"\n"

Words = NDArray[np.uint32]


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


class Guide:
    """What is to be kept to in one answer, and how far it has come. One thread at a time.

    Without a matcher there is only the thought's budget. The tokens of both kinds that end the
    answer do so only where the grammar accepts; elsewhere those of the request are text like any
    other. What `ending` does not want still comes where nothing else is allowed.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        ending: Ending,
        thought: ThoughtWatch | None = None,
        matcher: LLMatcher | None = None,
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
    def is_over(self) -> bool:
        """Say whether from now on everything is allowed."""
        return self._matcher is None and self.phase is Phase.ANSWER

    @property
    def can_wait(self) -> bool:
        """Say whether the token after the next may be any, whatever the next one is."""
        if self._matcher is not None:
            return False
        return self._thought is None or self._thought.is_free_for(2)

    @property
    def error(self) -> str:
        """Why the grammar cannot be followed further; empty if it can."""
        return self._matcher.get_error() if self._matcher is not None else ""

    def take(self, token: int) -> bool:
        """Go on with the token that was drawn; say whether it ends the answer."""
        self._num_made += 1
        is_end = token in self._ending.own or token in self._ending.others
        if is_end and (self._matcher is None or self._may_end(self._matcher)):
            return True
        phase = self.phase
        self._watch(token)
        if self._matcher is not None and phase in (Phase.OPENING, Phase.ANSWER):
            self._follow(self._matcher, token)
        return False

    def matcher(self) -> LLMatcher | None:
        """Return what fills the mask before `amend`; None if it is to be full of ones."""
        is_grammar = self.phase in (Phase.OPENING, Phase.ANSWER) and self._fits_grammar
        return self._matcher if is_grammar else None

    def amend(self, words: Words) -> None:
        """Make of a mask that is filled the next token's: bit n % 32 of word n // 32 is token n."""
        match self.phase:
            case Phase.OPENING:
                self._amend_opening(words)
            case Phase.THOUGHT:
                self._amend_thought(words)
            case Phase.CLOSING:
                assert self._thought is not None
                words[:] = 0
                _allow(words, self._thought.forced[:1])
            case Phase.ANSWER:
                self._amend_answer(words)
        if self._matcher is not None:
            _forbid(words, self._ending.unwanted(self._num_made))

    def _watch(self, token: int) -> None:
        """Let the thought's watch see a token, and count the line ends behind a thought."""
        before = self.phase
        if self._thought is None or before is Phase.ANSWER:
            return
        behind = self._thought.push(self._vocabulary.token_bytes(token))
        has_closed = before is not Phase.OPENING and self.phase is Phase.ANSWER
        if has_closed and self._matcher is not None:
            self._matcher.reset()
            self._fits_grammar = True
            self._line_ends = max(0, _MOST_LINE_ENDS - behind.count(_LINE_END))

    def _follow(self, matcher: LLMatcher, token: int) -> None:
        if self._fits_grammar and matcher.validate_tokens([token]):
            matcher.consume_token(token)
            self._line_ends = 0
        elif self._line_ends:
            self._line_ends -= self._vocabulary.token_bytes(token).count(_LINE_END)
        elif self.phase is Phase.ANSWER:
            matcher.consume_token(token)  # which makes it say what is wrong
        else:
            self._fits_grammar = False

    def _may_end(self, matcher: LLMatcher) -> bool:
        return self.matcher() is matcher and matcher.is_accepting()

    def _amend_opening(self, words: Words) -> None:
        assert self._thought is not None
        rest = self._thought.rest_of_opening
        if self._thought.budget == 0:
            _forbid(words, self._vocabulary.beginning_with(rest))
        elif self._matcher is not None:
            if not self._fits_grammar:
                words[:] = 0
            _allow(words, self._vocabulary.longest(rest))
            self._allow_ends(words, self._matcher)

    def _amend_thought(self, words: Words) -> None:
        if self._matcher is None:
            return
        assert self._thought is not None
        _forbid(words, self._ending.own)
        # What began the answer in the same token would not be bound.
        _forbid(words, self._vocabulary.overrunning(self._thought.marks.closing))
        for rest in self._thought.rests_of_closing:
            carrying = self._vocabulary.beginning_with(rest)
            tokens = self._vocabulary.tokens
            _forbid(words, [each for each in carrying if tokens[each][len(rest) :].strip()])

    def _amend_answer(self, words: Words) -> None:
        if self._matcher is None:
            return
        self._allow_ends(words, self._matcher)
        for count in range(1, self._line_ends + 1):
            _allow(words, self._vocabulary.meaning(_LINE_END * count))

    def _allow_ends(self, words: Words, matcher: LLMatcher) -> None:
        if self._ending.others and self._may_end(matcher):
            _allow(words, self._ending.others)


def _allow(words: Words, tokens: Iterable[int]) -> None:
    for token in tokens:
        words[token // 32] |= np.uint32(1 << token % 32)


def _forbid(words: Words, tokens: Collection[int]) -> None:
    """Take tokens out of a mask, unless that leaves nothing."""
    if not tokens:
        return
    left = words.copy()
    for token in tokens:
        left[token // 32] &= ~np.uint32(1 << token % 32)
    if left.any():
        words[:] = left
