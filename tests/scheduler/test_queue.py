"""Who waits goes next by priority and fair share, and is neither lost nor forgotten."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.scheduler.queue import WaitingQueue
from appliance.scheduler.sequence import Sequence
from tests.examples import examples


def _queue(sequences: Iterable[Sequence]) -> WaitingQueue:
    queue = WaitingQueue()
    for sequence in sequences:
        queue.add(sequence)
    return queue


def _sequence(name: str, key: str = "", priority: int = 0, tokens: int = 10) -> Sequence:
    return Sequence(name, tokens, key=key, priority=priority)


def _serve(queue: WaitingQueue, count: int) -> str:
    """Take and end `count` sequences; return the first letters of their ids."""
    served = [queue.take() for _ in range(count)]
    for sequence in served:
        queue.release(sequence)
    return "".join(sequence.id[0] for sequence in served)


def test_empty_queue_has_nothing_to_take() -> None:
    queue = WaitingQueue()

    assert queue.peek() is None
    with pytest.raises(IndexError):
        queue.take()


def test_queue_keeps_the_order_of_one_key() -> None:
    queue = _queue([_sequence("a"), _sequence("b"), _sequence("c")])

    assert list(queue) == ["a", "b", "c"]
    assert "b" in queue
    assert _serve(queue, 3) == "abc"
    assert len(queue) == 0


def test_queue_serves_higher_priority_first() -> None:
    queue = _queue([_sequence("a"), _sequence("b", "x", 5), _sequence("c", priority=9)])

    assert _serve(queue, 3) == "cba"


def test_queue_alternates_between_keys() -> None:
    queue = _queue(_sequence(f"{key}{n}", key) for key in "ab" for n in range(3))

    assert _serve(queue, 6) == "ababab"


def test_queue_charges_answers_to_their_key() -> None:
    queue = _queue(_sequence(f"{key}{n}", key) for key in "ab" for n in range(3))

    first = queue.take()
    queue.charge(first, 15)

    assert _serve(queue, 5) == "bbbaa"


def test_every_eighth_take_ignores_priority() -> None:
    queue = _queue([_sequence("low")])
    for n in range(20):
        queue.add(_sequence(f"high{n}", priority=1))

    assert _serve(queue, 18) == "hhhhhhhlhhhhhhhhhh"


def test_eighth_take_goes_to_the_least_served_key() -> None:
    queue = _queue([_sequence("many0", "many", 2), _sequence("many1", "many")])
    queue.add(_sequence("few", "few"))
    for n in range(20):
        queue.add(_sequence(f"high{n}", "high", 1))

    assert _serve(queue, 16) == "mhhhhhhf" + "hhhhhhhm"


def test_eighth_take_goes_to_the_first_arrived_of_its_key() -> None:
    queue = WaitingQueue()
    for name, priority, arrived in (("first", 0, 3.0), ("second", 1, 3.0), ("third", -1, 4.0)):
        queue.add(Sequence(name, 10, priority=priority, arrived=arrived))
    for n in range(30):
        queue.add(Sequence(f"high{n}", 10, priority=2, arrived=5.0))

    assert _serve(queue, 32) == "hhhhhhhf" + "hhhhhhhs" + "hhhhhhht" + "hhhhhhhh"


def test_sequence_put_back_goes_first_and_is_not_charged_again() -> None:
    queue = _queue(_sequence(f"{key}{n}", key) for key in "ab" for n in range(2))
    first = queue.take()

    queue.put_back(first)

    assert list(queue) == ["a1", "b0", "b1", "a0"]
    assert [queue.take().id for _ in range(4)] == ["b0", "a0", "a1", "b1"]


def test_namesake_of_a_sequence_put_back_is_charged() -> None:
    queue = _queue([_sequence("a0", "a")])
    for n in range(4):
        queue.add(_sequence(f"b{n}", "b", tokens=6))
    queue.put_back(queue.take())
    queue.remove("a0")

    queue.add(_sequence("a0", "a"))
    queue.add(_sequence("a1", "a"))

    assert _serve(queue, 6) == "bbabba"


def test_queue_removes_by_id() -> None:
    first, second = _sequence("a"), _sequence("b")
    queue = _queue([first, second])

    assert queue.remove("a") is first
    assert queue.remove("a") is None
    assert list(queue) == ["b"]


def test_idle_key_earns_no_credit() -> None:
    queue = _queue([_sequence("old", "idle")])
    _serve(queue, 1)
    for n in range(20):
        queue.add(_sequence(f"busy{n}", "busy"))
    _serve(queue, 10)

    for n in range(10):
        queue.add(_sequence(f"idle{n}", "idle"))

    assert Counter(_serve(queue, 10)) in ({"b": 5, "i": 5}, {"b": 6, "i": 4})


def test_key_that_comes_back_keeps_its_debt() -> None:
    queue = _queue([_sequence("big", "greedy", tokens=15)])
    queue.add(_sequence("modest0", "modest"))
    _serve(queue, 1)

    queue.add(_sequence("greedy", "greedy"))
    queue.add(_sequence("modest1", "modest"))

    assert _serve(queue, 3) == "mmg"


def test_idle_keys_are_forgotten_beside_a_busy_one() -> None:
    queue = _queue([_sequence("busy", "busy")])
    busy = queue.take()

    for n in range(1000):
        queue.add(_sequence("one", f"key{n}"))
        queue.release(queue.take())
        queue.charge(busy, 1)

    assert queue.num_keys < 20
    queue.release(busy)
    assert queue.num_keys == 0


class _Saturation:
    """A few slots, keys that always have more to ask, and now and then one that is put back."""

    def __init__(self, weights: list[int], slots: int, dice: random.Random) -> None:
        self.served = Counter[int]()
        self._wanted: dict[str, int] = {}
        self._weights, self._slots, self._dice = weights, slots, dice
        self._queue = WaitingQueue()
        self._running: list[Sequence] = []
        for number in range(20 * len(weights)):
            self._ask(number % len(weights))

    def _ask(self, key: int) -> None:
        name, sizes = str(self._dice.random()), self._dice.randint
        self._queue.add(Sequence(name, sizes(1, 50), str(key), self._weights[key]))
        self._wanted[name] = sizes(1, 20)

    def step(self) -> None:
        """Fill the slots, then let every sequence make a token."""
        if self._running and self._dice.random() < 0.1:
            self._queue.put_back(self._running.pop(self._dice.randrange(len(self._running))))
        while len(self._running) < self._slots:
            sequence = self._queue.take()
            self._running.append(sequence)
            if not sequence.num_produced:
                self.served[int(sequence.key)] += sequence.prompt_tokens
                self._ask(int(sequence.key))
        for sequence in self._running:
            sequence.num_produced += 1
            self.served[int(sequence.key)] += 1
            self._queue.charge(sequence, 1)
            if sequence.num_produced == self._wanted[sequence.id]:
                self._queue.release(sequence)
        self._running = [s for s in self._running if s.num_produced < self._wanted[s.id]]


_weights = st.lists(st.integers(1, 20), min_size=2, max_size=6)


@settings(deadline=None, max_examples=examples(25))
@given(_weights, st.integers(1, 16), st.integers(0, 1000))
def test_saturated_keys_share_by_weight(weights: list[int], slots: int, seed: int) -> None:
    saturation = _Saturation(weights, slots, random.Random(seed))

    # As long as the least share is a hundred times what its answers in progress may blur.
    while saturation.served.total() < 2000 * sum(weights) / min(weights):
        saturation.step()

    for key, weight in enumerate(weights):
        share = weight / sum(weights)
        assert abs(saturation.served[key] / saturation.served.total() - share) < 0.1 * share
