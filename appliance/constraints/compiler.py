"""Compile grammars for one model, beside everything else, and keep the last ones."""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from llguidance import LLMatcher, LLParserLimits

from appliance.chat.grammar import Grammar
from appliance.constraints.mark import complete
from appliance.constraints.vocabulary import Vocabulary
from appliance.errors import InvalidRequest

# More than the requests that are usually inside: one whose grammar was dropped has to wait for it.
_MOST_KEPT = 128
_MOST_KEPT_CHARACTERS = 2**22
# A state of the lexer takes one or two kB; a grammar that needs more of them cannot be followed.
_MOST_STATES = 50_000

Made = TypeVar("Made")


class Compiler:
    """The compiled grammars of a model, by content. All methods are for one thread.

    llguidance keeps no lock of the interpreter while it compiles; what it once makes of the
    vocabulary does.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._pool = ThreadPoolExecutor(1, "grammar")
        self._known: OrderedDict[Grammar, Future[LLMatcher]] = OrderedDict()
        self._vocabulary_read: Future[None] | None = None

    def __len__(self) -> int:
        return len(self._known)

    def prepare(self, grammar: Grammar | None, wake: Callable[[], None]) -> bool:
        """Say whether a grammar is compiled; else it is being, and `wake` is called from there.

        None is for those that only need the vocabulary.
        """
        future = self._read(wake) if grammar is None else self._compiled(grammar, wake)
        return future.done()

    def matcher(self, grammar: Grammar) -> LLMatcher:
        """Return a new matcher, compiling if need be; raises InvalidRequest with the reason."""
        matcher = self._compiled(grammar).result()
        if matcher.is_error():
            reason = " ".join(matcher.get_error().split())
            reason = f"The answer's grammar cannot be compiled: {reason}"
            raise InvalidRequest(reason, param=grammar.param)
        return matcher.deep_copy()

    def close(self) -> None:
        """Compile nothing more; what is being compiled is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, wake: Callable[[], None] | None = None) -> Future[None]:
        if self._vocabulary_read is None:
            self._vocabulary_read = self._start(self._vocabulary.read, wake)
        return self._vocabulary_read

    def _compiled(
        self, grammar: Grammar, wake: Callable[[], None] | None = None
    ) -> Future[LLMatcher]:
        future = self._known.get(grammar)
        if future is None:
            self._read()
            future = self._start(lambda: self._compile(grammar), wake)
            self._known[grammar] = future
            self._bound()
        self._known.move_to_end(grammar)
        return future

    def _start(self, make: Callable[[], Made], wake: Callable[[], None] | None) -> Future[Made]:
        future = self._pool.submit(make)
        if wake is not None:
            future.add_done_callback(lambda _: wake())
        return future

    def _compile(self, grammar: Grammar) -> LLMatcher:
        limits = LLParserLimits(max_lexer_states=_MOST_STATES, verbose_errors=False)
        lark = complete(grammar, self._vocabulary)
        return LLMatcher(self._vocabulary.backend, lark, log_level=0, limits=limits)

    def _bound(self) -> None:
        """Drop what was not asked for longest, but nothing that somebody waits for."""
        for grammar, future in list(self._known.items()):
            if not self._is_too_much():
                return
            if future.done():
                del self._known[grammar]

    def _is_too_much(self) -> bool:
        size = sum(len(grammar.lark) for grammar in self._known)
        return len(self._known) > _MOST_KEPT or size > _MOST_KEPT_CHARACTERS
