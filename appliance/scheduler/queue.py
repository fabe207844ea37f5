"""Decide which waiting sequence goes next: by priority, then by fair share; no key starves."""

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from appliance.scheduler.sequence import Sequence

_Lane = OrderedDict[str, Sequence]

_ANY_PRIORITY_EVERY = 8


@dataclass(slots=True)
class _Account:
    """What a key was served, in tokens per weight, and how many of its sequences live."""

    virtual_time: float
    num_live: int = 0


class WaitingQueue:
    """The sequences that wait, and what each key was served so far. For the engine thread only.

    A sequence lives from `add` until exactly one of `remove` (while it waits) or `release` (after
    it was taken). Ids of living sequences are unique, and id, key, priority and arrived stay as
    they are while a sequence waits; none that is added arrived before one that was added earlier.

    Higher priority goes first; among equals the key with the least virtual time: tokens of its
    prompts and answers by their weight (start-time fair queueing); among equals again whoever
    arrived first. A key's sequences of one priority keep their order.

    Every 8th take ignores priority and nothing else, so that no priority starves another key.
    Only keys that are not ahead pass one that waits: if its virtual time is v, another of weight
    w that was at u <= v when the wait began gets at most 1 + w * (v - u) of these takes before
    it gets one itself. (Prompts have a token at least; those put back are free and come on top.)
    Its own go to none that was added after one that waits began to. What a key is served at a
    high priority counts, so with that it can hold up its own sequences of a low one.

    A key without living sequences is idle. It comes back no earlier than the least virtual time
    of the others, and is forgotten once its own is no later, when remembering it changes nothing;
    when all are idle, all are forgotten.

    A call costs at most the number of keys times that of priorities, however many sequences wait.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Sequence] = {}
        self._places: dict[str, int] = {}
        self._lanes: dict[int, dict[str, _Lane]] = {}
        self._accounts: dict[str, _Account] = {}
        self._paid: set[str] = set()
        self._num_added = 0
        self._num_taken = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, sequence_id: object) -> bool:
        return sequence_id in self._waiting

    def __iter__(self) -> Iterator[str]:
        """Yield the ids that wait, in the order in which they began to."""
        return iter(self._waiting)

    @property
    def num_keys(self) -> int:
        """How many keys are remembered, idle ones included."""
        return len(self._accounts)

    def add(self, sequence: Sequence) -> None:
        """Let a new sequence wait, behind its key's others of the same priority."""
        account = self._accounts.get(sequence.key)
        if account is None or not account.num_live:
            account = self._wake(sequence.key)
        account.num_live += 1
        self._places[sequence.id] = self._num_added
        self._num_added += 1
        self._join(sequence)

    def put_back(self, sequence: Sequence) -> None:
        """Let a taken one wait again, before its key's others; its prompt is not charged again.

        Several go back in the reverse of the order that they shall have. As its next take is free,
        one that comes back again and again without a token charged in between starves the rest.
        """
        self._paid.add(sequence.id)
        self._join(sequence).move_to_end(sequence.id, last=False)

    def remove(self, sequence_id: str) -> Sequence | None:
        """Remove a waiting sequence that has ended; None if it does not wait here."""
        sequence = self._waiting.get(sequence_id)
        if sequence is not None:
            self._part(sequence)
            self.release(sequence)
        return sequence

    def peek(self) -> Sequence | None:
        """Return the sequence that `take` would take now; None if none waits."""
        if not self._waiting:
            return None
        levels = [self._lanes[max(self._lanes)]]
        if (self._num_taken + 1) % _ANY_PRIORITY_EVERY == 0:
            levels = list(self._lanes.values())
        heads = (next(iter(lane.values())) for lanes in levels for lane in lanes.values())
        return min(heads, key=self._rank)

    def take(self) -> Sequence:
        """Remove what `peek` says and charge its prompt to its key; IndexError if none waits."""
        sequence = self.peek()
        if sequence is None:
            raise IndexError("No sequence waits.")
        if sequence.id not in self._paid:
            self.charge(sequence, sequence.prompt_tokens)
        self._part(sequence)
        self._num_taken += 1
        return sequence

    def charge(self, sequence: Sequence, tokens: int) -> None:
        """Charge tokens of a living sequence's answer to its key, as they come."""
        self._accounts[sequence.key].virtual_time += tokens / sequence.weight

    def release(self, sequence: Sequence) -> None:
        """Note that a taken sequence has ended, in whatever way."""
        del self._places[sequence.id]
        account = self._accounts[sequence.key]
        account.num_live -= 1
        if not account.num_live:
            self._forget()

    def _rank(self, sequence: Sequence) -> tuple[float, float, int]:
        time = self._accounts[sequence.key].virtual_time
        return time, sequence.arrived, self._places[sequence.id]

    def _join(self, sequence: Sequence) -> _Lane:
        self._waiting[sequence.id] = sequence
        lane = self._lanes.setdefault(sequence.priority, {}).setdefault(sequence.key, OrderedDict())
        lane[sequence.id] = sequence
        return lane

    def _part(self, sequence: Sequence) -> None:
        del self._waiting[sequence.id]
        self._paid.discard(sequence.id)
        lanes = self._lanes[sequence.priority]
        del lanes[sequence.key][sequence.id]
        if not lanes[sequence.key]:
            del lanes[sequence.key]
        if not lanes:
            del self._lanes[sequence.priority]

    def _wake(self, key: str) -> _Account:
        account = self._accounts.setdefault(key, _Account(0.0))
        account.virtual_time = max(account.virtual_time, self._least(default=0.0))
        return account

    def _least(self, default: float) -> float:
        times = (a.virtual_time for a in self._accounts.values() if a.num_live)
        return min(times, default=default)

    def _forget(self) -> None:
        least = self._least(default=math.inf)
        for key in [key for key, a in self._accounts.items() if not a.num_live]:
            if self._accounts[key].virtual_time <= least:
                del self._accounts[key]
