"""Say whether more memory may be taken, and who should leave so that it may. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Idle:
    """A model that may leave: it does nothing, and it comes back at the first request."""

    name: str
    held_bytes: int
    priority: int
    idle_seconds: float


class Headroom:
    """What is left of the budget while one plan is drafted; the draft owns it.

    `budget_bytes` None = unbounded; `returning_bytes` are held now and on their way back.
    """

    def __init__(self, budget_bytes: int | None, held_bytes: int, returning_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._held = held_bytes
        self._returning = returning_bytes

    def take(self, growth_bytes: int) -> None:
        """Count bytes as held, or with a negative number as given back."""
        self._held += growth_bytes

    def has(self, growth_bytes: int) -> bool:
        """Say whether so much more fits now; no more at all always does."""
        return growth_bytes <= 0 or self._missing(growth_bytes, self._held) <= 0

    def will_have(self, growth_bytes: int) -> bool:
        """Say whether so much more fits when all that is on its way back has come."""
        return growth_bytes <= 0 or self.missing_bytes(growth_bytes) <= 0

    def missing_bytes(self, growth_bytes: int) -> int:
        """Return how much must still be freed, beyond what is on its way back, to grow so much."""
        return self._missing(growth_bytes, self._held - self._returning)

    def _missing(self, growth_bytes: int, held_bytes: int) -> int:
        return 0 if self.budget_bytes is None else held_bytes + growth_bytes - self.budget_bytes


def choose_leaving(idle: Iterable[Idle], missing_bytes: int) -> list[Idle]:
    """Return whose leaving frees so much; nobody if all together would not free it.

    The lowest priority goes first, then the longest idle; nobody leaves in vain.
    """
    leaving: list[Idle] = []
    freed = 0
    for each in sorted(idle, key=lambda each: (each.priority, -each.idle_seconds)):
        if freed >= missing_bytes:
            break
        leaving.append(each)
        freed += each.held_bytes
    if freed < missing_bytes:
        return []
    for each in reversed(leaving[:]):
        if freed - each.held_bytes >= missing_bytes:
            leaving.remove(each)
            freed -= each.held_bytes
    return leaving
