"""Hold a model's answers to their grammars and to the budgets of their thoughts."""

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import cast

from llguidance import LLMatcher

from appliance.chat.tokenizer import Tokenizer
from appliance.constraints.compiler import Compiler
from appliance.constraints.guide import Ending, Guide, Words
from appliance.constraints.mask import MaskFiller
from appliance.constraints.thought import Marks, ThoughtWatch
from appliance.constraints.vocabulary import Vocabulary
from appliance.engine.rows import Flight, Running
from appliance.engine.wire import Submit, ThoughtRule
from appliance.errors import InvalidRequest


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
        thought = submit.thought
        if thought is not None and not (thought.opening and thought.closing):
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
        grammar, thought = submit.grammar, submit.thought
        eos_ids = frozenset(self._vocabulary.eos_ids)
        own = eos_ids if grammar is not None or not submit.ignore_eos else frozenset[int]()
        others = frozenset(submit.stop_token_ids) - eos_ids
        guide = Guide(
            self._vocabulary,
            Ending(own, others, submit.min_tokens, ignores_own=submit.ignore_eos),
            None if thought is None else self._watch(thought),
            None if grammar is None else self._matchers[id(submit)].deep_copy(),
        )
        for token in produced:
            guide.take(token)
        return None if guide.is_over else guide

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

    def _watch(self, rule: ThoughtRule) -> ThoughtWatch:
        marks = Marks(
            rule.opening.encode(),
            rule.closing.encode(),
            tuple(self._vocabulary.spell(rule.closing)),
        )
        return ThoughtWatch.begin(marks, is_open=rule.is_open, budget=rule.budget)


def _is_guided(submit: Submit) -> bool:
    has_budget = submit.thought is not None and submit.thought.budget is not None
    return submit.grammar is not None or has_budget
