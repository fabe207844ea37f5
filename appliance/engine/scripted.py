"""Answer from a script instead of a model, through the same core and frames; no MLX here."""

import heapq
import time
from collections.abc import Callable
from pathlib import Path

from appliance.engine.body import Outcome, Report
from appliance.engine.script import Answer, Script, load_script
from appliance.engine.wire import Load, MemoryLimits, Row, ScriptPrompt, Submit, WireError
from appliance.errors import InvalidRequest, LoadFailed, SourceError
from appliance.scheduler.sequence import Sequence

_CONTEXT_TOKENS = 2**20
_FAILURE = WireError("step_failed", "The script says that the engine fails here.")


class _Play:
    """One answer on its way out: `index` pieces of it are emitted."""

    __slots__ = ("answer", "id", "index", "is_gone", "limit", "total")

    def __init__(self, request_id: str, answer: Answer, limit: int) -> None:
        self.id = request_id
        self.answer = answer
        self.limit = limit
        self.total = len(answer.pieces) * answer.repeat
        self.index = 0
        self.is_gone = False

    def advance(self, outcome: Outcome) -> bool:
        """Emit the next piece, or the failure in its place; say whether more follows."""
        answer = self.answer
        if self.index == answer.fail_at:
            outcome.ends[self.id] = _FAILURE
            return False
        if self.index < self.total:
            text = answer.pieces[self.index % len(answer.pieces)]
            outcome.rows.append(Row(self.id, text, 1, lengths=[len(text)]))
            self.index += 1
        if self.index == self.limit and self.index < self.total:
            outcome.ends[self.id] = "length"
        elif self.index == self.total and self.index != answer.fail_at:
            outcome.ends[self.id] = answer.finish
        return self.id not in outcome.ends


class ScriptedBody:
    """The plays of every request, ordered by when their next piece is due. Engine thread only.

    One piece is one token. A step emits one piece of every play that is due. A play that is late
    by more than its delay goes on from now, so a stall is not followed by a burst.
    """

    tokenizer = None
    waits_for_room = True
    footprint_bytes = 0

    def __init__(
        self,
        script: Script,
        max_sequences: int,
        context_tokens: int = _CONTEXT_TOKENS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_sequences = max_sequences
        self.context_tokens = context_tokens
        self._script = script
        self._clock = clock
        self._plays: dict[str, _Play] = {}
        self._due: list[tuple[float, int, _Play]] = []
        self._num_inserted = 0

    def prepare(self, submit: Submit, wake: Callable[[], None]) -> bool:
        """A script is written as it is, whatever grammar was asked for."""
        return True

    def check(self, submit: Submit) -> int:
        """Return the words of the messages; see Body."""
        if not isinstance(submit.prompt, ScriptPrompt):
            raise InvalidRequest("A scripted model takes text, not token ids.", param="prompt")
        return submit.prompt.num_tokens

    def has_room(self, submit: Submit, sequence: Sequence) -> bool:
        """A script needs no memory."""
        return True

    def insert(self, submit: Submit, sequence: Sequence) -> None:
        """Begin an answer; its first piece is due after `first_delay`."""
        assert isinstance(submit.prompt, ScriptPrompt)
        answer = self._script.answer(submit.prompt.text)
        play = self._plays[submit.id] = _Play(submit.id, answer, submit.max_tokens)
        play.index = sequence.num_produced
        self._num_inserted += 1
        heapq.heappush(self._due, (self._clock() + answer.first_delay, self._num_inserted, play))

    def remove(self, request_id: str) -> None:
        """Drop an answer."""
        self._plays.pop(request_id).is_gone = True

    def step(self) -> Outcome:
        """Emit one piece of every answer that is due."""
        now = self._clock()
        outcome = Outcome()
        again = []
        while self._due and self._due[0][0] <= now:
            due, order, play = heapq.heappop(self._due)
            if play.is_gone:
                continue
            if play.advance(outcome):
                again.append((max(due + play.answer.piece_delay, now), order, play))
            else:
                del self._plays[play.id]
        for entry in again:
            heapq.heappush(self._due, entry)
        outcome.seconds["decode"] = self._clock() - now
        return outcome

    def idle_seconds(self) -> float | None:
        """Return the time until the next piece is due; None when nothing plays."""
        while self._due and self._due[0][2].is_gone:
            heapq.heappop(self._due)
        if not self._due:
            return None
        return max(0.0, self._due[0][0] - self._clock())

    def reset(self) -> None:
        """Drop every answer."""
        self._plays.clear()
        self._due.clear()

    def works(self) -> bool:
        """A script always works."""
        return True

    def give_way(self) -> None:
        """A script holds no memory."""

    def set_limits(self, limits: MemoryLimits) -> None:
        """A script has no memory share."""

    def memory_bytes(self) -> int:
        """A script holds no model."""
        return 0

    def close(self) -> None:
        """Drop every answer."""
        self.reset()


def load_body(load: Load, report: Report) -> ScriptedBody:
    """Read the script that `load` names; raises LoadFailed."""
    report("weights", 0, 0)
    try:
        script = load_script(Path(load.directory))
    except SourceError as error:
        raise LoadFailed(load.model, str(error), retryable=False) from error
    context_tokens = load.engine.max_context_tokens or _CONTEXT_TOKENS
    return ScriptedBody(script, load.engine.max_sequences, context_tokens)
