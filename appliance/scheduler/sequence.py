"""Say what one request is inside the engine."""

from dataclasses import dataclass, field
from enum import StrEnum


class SequenceState(StrEnum):
    """Where a sequence stands; one that is preempted or suspected goes back to WAITING."""

    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Sequence:
    """One request from Submit to its end; equal only to itself. The engine core writes it.

    Sequences of one `key` wait for each other, those of different keys share by `weight` (over 0);
    a higher `priority` goes first. `arrived` and `deadline` are seconds of one monotonic clock.
    `produced` are the token ids made so far, kept over a preemption; `num_produced` counts tokens
    also where an engine makes text and no ids.
    """

    id: str
    prompt_tokens: int
    key: str = ""
    weight: float = 1.0
    priority: int = 0
    arrived: float = 0.0
    deadline: float | None = None
    state: SequenceState = SequenceState.WAITING
    produced: list[int] = field(default_factory=list)
    num_produced: int = 0
