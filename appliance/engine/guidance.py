"""Hold a model's answers to their grammars and to the budgets of their thoughts."""

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import cast

from llguidance import LLMatcher

from appliance.chat.tokenizer import Tokenizer
from appliance.constraints.budget import BudgetGuide
from appliance.constraints.compiler import Compiler
from appliance.constraints.guide import Ending, GrammarGuide, Guide
from appliance.constraints.mask import MaskFiller
from appliance.constraints.thought import Marks, ThoughtWatch
from appliance.constraints.vocabulary import Vocabulary
from appliance.constraints.words import Words
from appliance.engine.rows import Flight, Running
from appliance.engine.wire import Submit, ThoughtRule
from appliance.errors import InvalidRequest
from appliance.parsing.thinking import ThoughtCounter
from appliance.parsing.toolbox import Toolbox


class Guidance:
    """What the requests to one model are held to. Engine thread only.

    Nothing is made before the first request that needs it.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._vocabulary = Vocabulary(tokenizer, vocab_size)
        self._vocab_size = vocab_size
        # Those of the requests that were accepted, by the identity of their Submit.
        self._matchers: dict[int, LLMatcher] = {}

    def __len__(self) -> int:
        """Return the number of grammars that are held for requests."""
        return len(self._matchers)

    @cached_property
    def _compiler(self) -> Compiler:
        return Compiler(self._vocabulary)

    @cached_property
    def _seer(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "masks")

    @cached_property
    def _filler(self) -> MaskFiller:
        return MaskFiller(self._vocab_size)

    def prepare(self, submit: Submit, wake: Callable[[], None]) -> bool:
        """Say whether all is there that a request needs; see Body."""
        if not _is_guided(submit):
            return True
        return self._compiler.prepare(submit.grammar, wake)

    def check(self, submit: Submit) -> None:
        """Raise InvalidRequest for what cannot be enforced, with the compiler's reason."""
        if not _is_guided(submit):
            return
        if submit.thought is not None and submit.thought.form.thought is None:
            raise InvalidRequest("A thought needs marks to begin and to end with.")
        if submit.grammar is None:
            return
        if not self._vocabulary.eos_ids:
            reason = "The model has no end token, so that nothing can bind its answer."
            raise InvalidRequest(reason, param=submit.grammar.param)
        # A grammar may be forgotten before its turn comes, or comes again.
        self._matchers[id(submit)] = self._compiler.matcher(submit.grammar)
        weakref.finalize(submit, self._matchers.pop, id(submit)).atexit = False

    def guide(self, submit: Submit, produced: Sequence[int]) -> Guide | None:
        """Return what an accepted request is held to, `produced` being the answer so far."""
        if not _is_guided(submit):
            return None
        guide = self._free(submit) if submit.grammar is None else self._bound(submit)
        for token in produced:
            guide.take(token)
        return guide

    def foresee(self, places: list[Running | None], flight: Flight | None) -> Future[Words]:
        """Begin to wait for a flight's tokens, tell the guides of them and fill the next masks.

        `places` are the rows as they are. Until it is done their guides belong to its thread.
        """
        return self._seer.submit(self._foresee, places, flight)

    def _foresee(self, places: list[Running | None], flight: Flight | None) -> Words:
        if flight is not None:
            column = cast(list[list[int]], flight.sampled.column.tolist())
            for running, (token,) in zip(flight.rows, column, strict=True):
                if running is not None:
                    running.foretell(token)
        return self._filler.fill([None if each is None else each.guide for each in places])

    def close(self) -> None:
        """Compile nothing more."""
        self._compiler.close()
        self._seer.shutdown(wait=False)

    def _bound(self, submit: Submit) -> GrammarGuide:
        own = frozenset(self._vocabulary.eos_ids)
        others = frozenset(submit.stop_token_ids) - own
        rule, thought = submit.thought, None
        if rule is not None:
            marks = self._marks(rule)
            is_open = rule.begun.encode() == marks.opening
            thought = ThoughtWatch.begin(marks, is_open=is_open, budget=rule.budget)
        return GrammarGuide(
            self._vocabulary,
            Ending(own, others, submit.min_tokens, ignores_own=submit.ignore_eos),
            self._matchers[id(submit)].deep_copy(),
            thought,
        )

    def _free(self, submit: Submit) -> BudgetGuide:
        rule = submit.thought
        assert rule is not None
        assert rule.budget is not None
        own = () if submit.ignore_eos else self._vocabulary.eos_ids
        return BudgetGuide(
            self._vocabulary,
            ThoughtCounter(rule.form, Toolbox(rule.tools), begun=rule.begun),
            self._marks(rule),
            budget=rule.budget,
            ends=frozenset((*own, *submit.stop_token_ids)),
            hidden=self._vocabulary.hidden(submit.shown),
        )

    def _marks(self, rule: ThoughtRule) -> Marks:
        thought = rule.form.thought
        assert thought is not None
        spelled = tuple(self._vocabulary.spell(thought.closing))
        return Marks(thought.opening.encode(), thought.closing.encode(), spelled)


def _is_guided(submit: Submit) -> bool:
    has_budget = submit.thought is not None and submit.thought.budget is not None
    return submit.grammar is not None or has_budget
