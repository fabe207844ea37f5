"""Queue, room and preemption together serve everybody once, within a memory budget."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.scheduler.queue import WaitingQueue
from appliance.scheduler.room import KvLayer, KvShape, columns_for, preemption_order, rows_for
from appliance.scheduler.sequence import Sequence
from tests.examples import examples

_SHAPE = KvShape((KvLayer(2), KvLayer(3, window=512)), row_bytes=100)
_MOST_ROWS = 8
_STEP_TOKENS = 16


class _Engine:
    """Slots in a batch of limited bytes; a step makes up to 16 tokens of each answer."""

    def __init__(self, budget_bytes: int) -> None:
        self.ends: list[tuple[str, str]] = []
        self.num_preempted = 0
        self._budget_bytes = budget_bytes
        self._queue = WaitingQueue()
        self._living: dict[str, tuple[Sequence, int]] = {}
        self._running: list[Sequence] = []

    @property
    def is_idle(self) -> bool:
        return not self._queue and not self._running

    def submit(self, sequence: Sequence, answer_tokens: int) -> None:
        self._living[sequence.id] = (sequence, answer_tokens)
        self._queue.add(sequence)

    def cancel(self, sequence_id: str, reason: str = "cancelled") -> None:
        if sequence_id not in self._living:
            return
        sequence, _ = self._living[sequence_id]
        if self._queue.remove(sequence_id) is None:
            self._running.remove(sequence)
            self._queue.release(sequence)
        self._end(sequence, reason)

    def turn(self, now: float) -> None:
        for sequence, _ in list(self._living.values()):
            if sequence.deadline is not None and sequence.deadline <= now:
                self.cancel(sequence.id, "expired")
        self._make_room()
        self._admit()
        assert self._forecast(self._running) <= self._budget_bytes
        for sequence in list(self._running):
            self._step(sequence)

    def _make_room(self) -> None:
        for sequence in preemption_order(self._running):
            if self._forecast(self._running) <= self._budget_bytes:
                return
            self._running.remove(sequence)
            self._queue.put_back(sequence)
            self.num_preempted += 1

    def _admit(self) -> None:
        while len(self._running) < _MOST_ROWS and (candidate := self._queue.peek()):
            if self._forecast([*self._running, candidate]) > self._budget_bytes:
                return
            self._running.append(self._queue.take())

    def _step(self, sequence: Sequence) -> None:
        _, answer_tokens = self._living[sequence.id]
        tokens = min(_STEP_TOKENS, answer_tokens - sequence.num_produced)
        sequence.num_produced += tokens
        self._queue.charge(sequence, tokens)
        if sequence.num_produced == answer_tokens:
            self._running.remove(sequence)
            self._queue.release(sequence)
            self._end(sequence, "length")

    def _end(self, sequence: Sequence, reason: str) -> None:
        del self._living[sequence.id]
        self.ends.append((sequence.id, reason))

    def _forecast(self, rows: list[Sequence]) -> int:
        """Return the bytes that the next step needs, a resize included."""
        if not rows:
            return 0
        longest = max(row.prompt_tokens + row.num_produced + _STEP_TOKENS for row in rows)
        return _capacity_bytes(len(rows), longest)


def _capacity_bytes(count: int, length: int) -> int:
    rows, columns = rows_for(count, _MOST_ROWS), columns_for(length)
    return _SHAPE.batch_bytes(rows, columns) + _SHAPE.largest_layer_bytes(rows, columns)


@dataclass
class _Visit:
    """When a request comes, what it asks, and when its client loses patience."""

    comes: int
    prompt_tokens: int
    answer_tokens: int
    key: str
    priority: int
    patience: int | None
    cancelled_after: int | None

    def sequence(self, name: str) -> Sequence:
        deadline = None if self.patience is None else float(self.comes + self.patience)
        sequence = Sequence(name, self.prompt_tokens, key=self.key)
        sequence.priority, sequence.arrived = self.priority, float(self.comes)
        sequence.deadline = deadline
        return sequence


_visits = st.builds(
    _Visit,
    comes=st.integers(0, 30),
    prompt_tokens=st.integers(1, 1500),
    answer_tokens=st.integers(1, 700),
    key=st.sampled_from("abc"),
    priority=st.integers(0, 2),
    patience=st.none() | st.integers(1, 60),
    cancelled_after=st.none() | st.integers(0, 60),
)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(_visits, min_size=1, max_size=30), st.floats(1.0, 5.0))
def test_engine_serves_everybody_once_within_its_budget(
    visits: list[_Visit], plenty: float
) -> None:
    least_bytes = max(
        _capacity_bytes(1, v.prompt_tokens + v.answer_tokens + _STEP_TOKENS) for v in visits
    )
    engine = _Engine(int(least_bytes * plenty))
    # Every turn with somebody there brings at least one of them a step on.
    turns = 31 + sum(-(-visit.answer_tokens // _STEP_TOKENS) for visit in visits)

    for now in range(turns):
        for number, visit in enumerate(visits):
            if visit.comes == now:
                engine.submit(visit.sequence(str(number)), visit.answer_tokens)
            if visit.cancelled_after is not None and visit.comes + visit.cancelled_after == now:
                engine.cancel(str(number))
        engine.turn(float(now))

    assert engine.is_idle
    ends = Counter(sequence_id for sequence_id, _ in engine.ends)
    assert ends == Counter(str(number) for number in range(len(visits)))


def test_engine_short_of_memory_preempts_and_still_ends_all() -> None:
    engine = _Engine(_capacity_bytes(3, 1024))
    for number in range(6):
        engine.submit(Sequence(str(number), 100, arrived=float(number)), 700)

    for now in range(300):
        engine.turn(float(now))

    assert engine.num_preempted > 0
    assert sorted(engine.ends) == [(str(number), "length") for number in range(6)]


@pytest.mark.parametrize("key", ["flood", "other"])
def test_low_priority_ends_under_a_flood_of_high_priority(key: str) -> None:
    engine = _Engine(_capacity_bytes(_MOST_ROWS, 1024))
    engine.submit(Sequence("low", 100, key), 100)

    for now in range(40):
        for number in range(_MOST_ROWS):
            name = f"{now}-{number}"
            engine.submit(Sequence(name, 100, "flood", priority=1, arrived=float(now)), 100)
        engine.turn(float(now))

    assert ("low", "length") in engine.ends
    assert not engine.is_idle
