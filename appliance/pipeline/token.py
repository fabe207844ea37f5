"""Say which tokens belong to a stretch of an answer, wherever its rows begin and end."""

from collections import deque

from appliance.engine.wire import Row, TokenLogprob


class TokenLine:
    """An answer's tokens in order, each until its place is asked for; places are characters."""

    def __init__(self) -> None:
        self._end = 0
        self._tokens: deque[tuple[int, TokenLogprob | None]] = deque()

    def add(self, row: Row, *, is_forgotten: bool = False) -> None:
        """Add a row's tokens; each comes with its log-probability, if the row has them.

        `is_forgotten`: nobody will ask for these, nor for any before.
        """
        if is_forgotten:
            self._tokens.clear()
            self._end += sum(row.lengths)
            return
        for index, length in enumerate(row.lengths):
            self._tokens.append((self._end, row.logprobs[index] if row.logprobs else None))
            self._end += length

    def take(self, start: int, end: int) -> list[TokenLogprob | None]:
        """Return the tokens that begin in a stretch, and forget all before its end."""
        tokens, taken = self._tokens, []
        while tokens and tokens[0][0] < end:
            at, logprob = tokens.popleft()
            if at >= start:
                taken.append(logprob)
        return taken

    def take_rest(self) -> list[TokenLogprob | None]:
        """Return the tokens that nothing was asked for."""
        rest = [logprob for _, logprob in self._tokens]
        self._tokens.clear()
        return rest
