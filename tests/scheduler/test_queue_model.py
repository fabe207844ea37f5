"""The queue agrees with a slow model that forgets nothing, under any mix of calls."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from appliance.scheduler.queue import WaitingQueue
from appliance.scheduler.sequence import Sequence
from tests.examples import examples

_WEIGHTS = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 0.5}
_index = st.integers(0, 1000)


@dataclass
class _Wait:
    """The virtual times when a key began to wait for its turn, and who passed it since."""

    times: dict[str, float]
    passes: Counter[str] = field(default_factory=Counter)


class _Model(RuleBasedStateMachine):
    """Every sequence is in one list; virtual times are kept for ever, unless all are idle."""

    @initialize()
    def begin(self) -> None:
        self.queue = WaitingQueue()
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.lines: dict[str, list[Sequence]] = {key: [] for key in _WEIGHTS}
        self.times: dict[str, float] = {}
        self.paid: set[str] = set()
        self.waits: dict[str, _Wait] = {}
        self.turns_left: dict[str, int] = {}
        self.num_taken = 0
        self.num_added = 0
        self.now = 0.0

    @rule(
        key=st.sampled_from(sorted(_WEIGHTS)),
        priority=st.integers(-1, 1),
        tokens=st.integers(1, 64),
        seconds=st.integers(0, 3),
    )
    def add(self, key: str, priority: int, tokens: int, seconds: int) -> None:
        self.now += seconds
        sequence = Sequence(str(self.num_added), tokens, key, _WEIGHTS[key], priority, self.now)
        self.num_added += 1
        living = {other.key for other in self.waiting + self.running}
        if key not in living:
            least = min((self.times[other] for other in living), default=0.0)
            self.times[key] = max(self.times.get(key, 0.0), least)
        self._join(sequence, len(self.lines[key]))
        self.queue.add(sequence)

    @precondition(lambda self: self.running)
    @rule(index=_index)
    def put_back(self, index: int) -> None:
        sequence = self.running.pop(index % len(self.running))
        self.paid.add(sequence.id)
        for other in self.lines[sequence.key]:
            self.turns_left[other.id] += 1
        self._join(sequence, 0)
        self.queue.put_back(sequence)

    @precondition(lambda self: self.waiting)
    @rule()
    def take(self) -> None:
        peeked, taken = self.queue.peek(), self.queue.take()
        assert taken is peeked
        assert taken is self._next()
        if self._ignores_priority():
            self._note_turn(taken)
        if taken.id not in self.paid:
            self.times[taken.key] += taken.prompt_tokens / taken.weight
        self._part(taken)
        self.running.append(taken)
        self.num_taken += 1

    @precondition(lambda self: self.running)
    @rule(index=_index, tokens=st.integers(1, 64))
    def charge(self, index: int, tokens: int) -> None:
        sequence = self.running[index % len(self.running)]
        self.times[sequence.key] += tokens / sequence.weight
        self.queue.charge(sequence, tokens)

    @precondition(lambda self: self.running)
    @rule(index=_index)
    def release(self, index: int) -> None:
        self.queue.release(self.running.pop(index % len(self.running)))

    @precondition(lambda self: self.waiting)
    @rule(index=_index)
    def remove(self, index: int) -> None:
        sequence = self.waiting[index % len(self.waiting)]
        assert self.queue.remove(sequence.id) is sequence
        self._part(sequence)

    @invariant()
    def nobody_is_lost(self) -> None:
        assert list(self.queue) == [sequence.id for sequence in self.waiting]
        assert len(self.queue) == len(self.waiting)
        assert all(sequence.id not in self.queue for sequence in self.running)
        assert (self.queue.peek() is None) == (not self.waiting)

    @invariant()
    def no_key_starves(self) -> None:
        for key, wait in self.waits.items():
            for other, count in wait.passes.items():
                lag = self.times[key] - wait.times.get(other, 0.0)
                assert count <= 1 + _WEIGHTS[other] * lag

    @invariant()
    def turns_of_a_key_pass_nobody_for_long(self) -> None:
        assert all(self.turns_left[sequence.id] > 0 for sequence in self.waiting)

    @invariant()
    def idle_keys_are_forgotten_at_last(self) -> None:
        if not self.waiting and not self.running:
            self.times.clear()
            assert self.queue.num_keys == 0
        assert self.queue.num_keys <= len(self.times)

    def _ignores_priority(self) -> bool:
        return self.num_taken % 8 == 7

    def _next(self) -> Sequence:
        top = max(sequence.priority for sequence in self.waiting)
        heads: dict[tuple[str, int], Sequence] = {}
        for key, line in self.lines.items():
            for sequence in line:
                if self._ignores_priority() or sequence.priority == top:
                    heads.setdefault((key, sequence.priority), sequence)
        return min(heads.values(), key=lambda s: (self.times[s.key], s.arrived, int(s.id)))

    def _note_turn(self, taken: Sequence) -> None:
        del self.waits[taken.key]
        for wait in self.waits.values():
            wait.passes[taken.key] += taken.id not in self.paid
        for sequence in self.lines[taken.key]:
            self.turns_left[sequence.id] -= 1
        self.waits[taken.key] = _Wait(dict(self.times))

    def _join(self, sequence: Sequence, place: int) -> None:
        self.waiting.append(sequence)
        self.lines[sequence.key].insert(place, sequence)
        self.waits.setdefault(sequence.key, _Wait(dict(self.times)))
        living = [other for other in self.waiting + self.running if other.key == sequence.key]
        self.turns_left[sequence.id] = len(living)

    def _part(self, sequence: Sequence) -> None:
        self.waiting.remove(sequence)
        self.lines[sequence.key].remove(sequence)
        self.paid.discard(sequence.id)
        if not self.lines[sequence.key]:
            del self.waits[sequence.key]


def test_queue_agrees_with_its_model() -> None:
    run_state_machine_as_test(
        _Model, settings=settings(max_examples=examples(50), stateful_step_count=50, deadline=None)
    )
