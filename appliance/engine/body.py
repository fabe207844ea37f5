"""Say what the core asks of the thing that generates: one loaded model, or a script."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from appliance.engine.wire import (
    EndReason,
    Load,
    LoadPhase,
    MemoryLimits,
    Row,
    Submit,
    WireError,
)
from appliance.scheduler.sequence import Sequence

if TYPE_CHECKING:
    from appliance.chat.tokenizer import Tokenizer

Report = Callable[[LoadPhase, int, int], None]


@dataclass(slots=True)
class Outcome:
    """What one step gave: rows without their ends, why some ended, who must wait again for want
    of memory, and seconds spent by phase."""

    rows: list[Row] = field(default_factory=list)
    ends: dict[str, EndReason | WireError] = field(default_factory=dict)
    preempted: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


class Body(Protocol):
    """Sequences that grow by steps. Every method is for the engine thread only.

    `tokenizer` is None when rows carry text instead of ids.
    `waits_for_room`: the core holds the next step back until the last one was sent.
    """

    waits_for_room: bool
    max_sequences: int
    context_tokens: int
    footprint_bytes: int

    @property
    def tokenizer(self) -> "Tokenizer | None":
        """What turns ids into text; set once, used by the reader thread."""

    def prepare(self, submit: Submit, wake: Callable[[], None]) -> bool:
        """Say whether `check` would be quick. Else what it needs is made in another thread, which
        then calls `wake`."""

    def check(self, submit: Submit) -> int:
        """Return the prompt's length in tokens.

        Raises InvalidRequest for what it cannot take, OutOfMemoryBudget for what never fits.
        """

    def has_room(self, submit: Submit, sequence: Sequence) -> bool:
        """Say whether there is memory for one more sequence now; always, when there is no other."""

    def insert(self, submit: Submit, sequence: Sequence) -> None:
        """Take one more sequence, with what it has produced; never more than `max_sequences`.

        One that raises has taken nothing.
        """

    def remove(self, request_id: str) -> None:
        """Free a sequence that is still inside."""

    def step(self) -> Outcome:
        """Advance every sequence that is due; ended and preempted ones are gone afterwards."""

    def idle_seconds(self) -> float | None:
        """Return how long `step` would find nothing to do; None without sequences."""

    def reset(self) -> None:
        """Drop every sequence and start clean after a failed step."""

    def works(self) -> bool:
        """Say whether the smallest step still succeeds; called without sequences."""

    def give_way(self) -> None:
        """Keep to less memory from now on, since an allocation failed."""

    def set_limits(self, limits: MemoryLimits) -> None:
        """Keep to a new memory share."""

    def memory_bytes(self) -> int:
        """Return the bytes in use by the model and its sequences."""

    def close(self) -> None:
        """Free the model."""


OpenBody = Callable[[Load, Report], Body]
