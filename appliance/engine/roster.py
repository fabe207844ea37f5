"""Know every sequence of a model from its Submit to its one end, wherever it stands."""

from collections.abc import Callable
from time import monotonic

import structlog

from appliance.engine.body import Body, Outcome
from appliance.engine.wire import End, EndReason, Row, Submit, WireError
from appliance.scheduler.quarantine import Quarantine
from appliance.scheduler.queue import WaitingQueue
from appliance.scheduler.sequence import Sequence, SequenceState

# So many sequences in a row that fail even alone, and the engine itself is tried.
_HOPELESS = 3

log = structlog.get_logger()


class Roster:
    """The sequences of one model: waiting, in the body, or suspected of a failed step.

    Engine thread only. `rows` that end, `started` and `preempted` gather until `take_*`.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._submits: dict[str, Submit] = {}
        self._sequences: dict[str, Sequence] = {}
        self._running: dict[str, Sequence] = {}
        self._queue = WaitingQueue()
        self._quarantine = Quarantine()
        self._ended: list[Row] = []
        self._started: list[str] = []
        self._preempted: list[str] = []
        self._num_blamed = 0
        self._gave_way = False

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._sequences

    @property
    def counts(self) -> tuple[int, int]:
        """How many sequences are in the body, and how many wait."""
        return len(self._running), len(self._sequences) - len(self._running)

    @property
    def has_news(self) -> bool:
        """Say whether a sequence ended or started since the last `take_news`."""
        return bool(self._ended or self._started)

    def is_hopeless(self, body: Body) -> bool:
        """Say whether it is the engine that fails: one after another failed alone, without a token
        from any, none is left to try, and the smallest step fails too."""
        if self._num_blamed < _HOPELESS or self._quarantine.is_active:
            return False
        self._num_blamed = 0
        return not body.works()

    def add(self, submit: Submit, prompt_tokens: int) -> None:
        """Let a new sequence wait for its turn."""
        now = self._clock()
        timeout = submit.timeout_seconds
        sequence = Sequence(
            id=submit.id,
            prompt_tokens=prompt_tokens,
            key=submit.key,
            weight=submit.weight,
            priority=submit.priority,
            arrived=now,
            deadline=None if timeout is None else now + timeout,
        )
        self._submits[submit.id] = submit
        self._sequences[submit.id] = sequence
        self._queue.add(sequence)

    def cancel(self, body: Body, request_id: str) -> None:
        """End a sequence wherever it stands; unknown ids are ignored."""
        sequence = self._sequences.get(request_id)
        if sequence is not None:
            self._end_early(body, sequence, "cancelled")

    def expire(self, body: Body) -> None:
        """End every sequence whose deadline has passed."""
        now = self._clock()
        late = [each for each in self._sequences.values() if each.deadline is not None]
        for sequence in late:
            assert sequence.deadline is not None
            if sequence.deadline <= now:
                seconds = self._submits[sequence.id].timeout_seconds
                error = WireError("deadline", "It took too long.", limit_seconds=seconds)
                self._end_early(body, sequence, error)

    def seconds_to_deadline(self) -> float | None:
        """Return the time until the next deadline; None without one."""
        deadlines = [
            each.deadline for each in self._sequences.values() if each.deadline is not None
        ]
        return max(0.0, min(deadlines) - self._clock()) if deadlines else None

    def can_admit(self, body: Body) -> bool:
        """Say whether a sequence could enter the body now."""
        if self._quarantine.is_active:
            return self._quarantine.is_trial_over
        sequence = self._queue.peek()
        return (
            sequence is not None
            and len(self._running) < body.max_sequences
            and body.has_room(self._submits[sequence.id], sequence)
        )

    def admit(self, body: Body) -> None:
        """Let waiting sequences into the body as places and memory allow, suspects first."""
        while self.can_admit(body):
            if self._quarantine.is_active:
                self._try_next(body)
            else:
                self._insert(body, self._queue.take())

    def take_step(self, outcome: Outcome) -> list[Row]:
        """Note what a step gave and return its rows, with the ends of those that end in it."""
        for row in outcome.rows:
            sequence = self._running[row.id]
            sequence.state = SequenceState.DECODE
            sequence.produced += row.ids
            sequence.num_produced += row.tokens
            self._queue.charge(sequence, row.tokens)
            self._quarantine.passed(row.id)
            self._num_blamed, self._gave_way = 0, False
            if row.id in outcome.ends:
                row.end = _end(sequence, outcome.ends.pop(row.id))
                self._forget(sequence)
        for request_id, end in outcome.ends.items():
            self._finish(self._running[request_id], end)
        for request_id in outcome.preempted:
            self._wait_again(self._running.pop(request_id))
            self._preempted.append(request_id)
        return outcome.rows

    def recover(self, body: Body, error: Exception) -> None:
        """Empty the body after its step raised; only those that fail alone too are ended.

        An allocation that failed is tried once more with less memory in use.
        """
        suspects = list(self._running.values())
        ids = [sequence.id for sequence in suspects]
        log.error("step_failed", request_ids=ids, exc_info=error)
        self._running.clear()
        is_short = _is_allocation(error) and not self._gave_way
        if is_short:
            # Before the reset: what is in use now is what was too much.
            body.give_way()
        body.reset()
        if is_short:
            self._gave_way = True
            for sequence in reversed(suspects):
                self._wait_again(sequence)
            self._preempted += ids
            return
        if not suspects:
            self._num_blamed += 1
            return
        for culprit in self._quarantine.suspect(suspects):
            self._num_blamed += 1
            reason = f"The engine's step failed ({type(error).__name__})."
            self._finish(culprit, WireError("step_failed", reason))

    def end_all(self, error: WireError) -> None:
        """End every sequence; the body is not told."""
        for sequence in tuple(self._sequences.values()):
            self._finish(sequence, error)

    def take_news(self) -> tuple[list[Row], list[str], list[str]]:
        """Return end rows, ids that started and ids that were preempted since the last call."""
        news = (self._ended, self._started, self._preempted)
        self._ended, self._started, self._preempted = [], [], []
        return news

    def _insert(self, body: Body, sequence: Sequence) -> None:
        submit = self._submits[sequence.id]
        try:
            body.insert(submit, sequence)
        except Exception as error:  # the engine thread's outer loop, for one request
            log.exception("insert_failed", request_id=sequence.id)
            reason = f"The engine could not take the request ({type(error).__name__})."
            self._finish(sequence, WireError("step_failed", reason))
            return
        sequence.state = SequenceState.PREFILL
        self._running[sequence.id] = sequence
        self._started.append(sequence.id)

    def _try_next(self, body: Body) -> None:
        for sequence in self._running.values():
            body.remove(sequence.id)
            sequence.state = SequenceState.WAITING
        self._running.clear()
        trial = self._quarantine.next_trial()
        for sequence in trial:
            self._insert(body, sequence)
        if not trial:
            for sequence in reversed(self._quarantine.take_cleared()):
                self._wait_again(sequence)

    def _wait_again(self, sequence: Sequence) -> None:
        """Let a sequence wait in the queue; should it be guilty, its next step will tell."""
        sequence.state = SequenceState.WAITING
        self._quarantine.discard(sequence.id)
        self._queue.put_back(sequence)

    def _end_early(self, body: Body, sequence: Sequence, end: EndReason | WireError) -> None:
        if sequence.id in self._running:
            body.remove(sequence.id)
        self._finish(sequence, end)

    def _finish(self, sequence: Sequence, end: EndReason | WireError) -> None:
        self._ended.append(Row(sequence.id, "", 0, end=_end(sequence, end)))
        self._forget(sequence)

    def _forget(self, sequence: Sequence) -> None:
        sequence.state = SequenceState.FINISHED
        self._running.pop(sequence.id, None)
        self._quarantine.discard(sequence.id)
        if sequence.id in self._queue:
            self._queue.remove(sequence.id)
        else:
            self._queue.release(sequence)
        del self._sequences[sequence.id], self._submits[sequence.id]


def _end(sequence: Sequence, end: EndReason | WireError) -> End:
    if isinstance(end, WireError):
        return End("error", sequence.num_produced, end)
    return End(end, sequence.num_produced)


def _is_allocation(error: Exception) -> bool:
    """Say whether MLX found no memory; it has no error of its own for that."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "malloc" in text or "out of memory" in text
