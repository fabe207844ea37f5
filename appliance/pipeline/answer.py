"""Turn an engine's rows into an answer's text, cut at stop strings, and its log-probabilities."""

from collections import deque
from collections.abc import Iterable

from appliance.chat import event
from appliance.chat.event import TextDelta
from appliance.engine.wire import Row, TokenLogprob
from appliance.parsing.stop import StopCutter


class AnswerText:
    """The text of one answer as it may leave. One instance per request; pure.

    With `has_logprobs`, each token leaves with the first of its text, one without text with the
    next that has some. Of a cut answer these are the tokens whose text begins before the cut.
    """

    def __init__(self, stops: tuple[str, ...], *, has_logprobs: bool) -> None:
        self._cutter = StopCutter(stops)
        self._has_logprobs = has_logprobs
        self._tokens: deque[TokenLogprob] = deque()
        self._sent = 0

    @property
    def is_cut(self) -> bool:
        """Say whether a stop string was found; nothing more leaves then."""
        return self._cutter.matched is not None

    def push(self, row: Row) -> list[TextDelta]:
        """Take a row and return what may leave now: one delta or none."""
        text = self._cutter.push(row.text)
        if not self._has_logprobs:
            return [TextDelta(text)] if text else []
        self._tokens.extend(row.logprobs)
        self._sent += len(text)
        return [TextDelta(text, _to_events(self._begun()))] if text else []

    def flush(self) -> list[TextDelta]:
        """Return what is left once the engine has ended the answer: one delta or none."""
        text = self._cutter.flush()
        if not self._has_logprobs:
            return [TextDelta(text)] if text else []
        tokens, self._tokens = self._tokens, deque()
        return [TextDelta(text, _to_events(tokens))] if text or tokens else []

    def _begun(self) -> list[TokenLogprob]:
        """Take the tokens whose text begins in what has left."""
        tokens = []
        while self._tokens and self._tokens[0].at < self._sent:
            tokens.append(self._tokens.popleft())
        return tokens


def _to_events(tokens: Iterable[TokenLogprob]) -> tuple[event.TokenLogprob, ...]:
    return tuple(
        event.TokenLogprob(each.token, each.logprob, _to_events(each.top)) for each in tokens
    )
