"""Say who sent a request, what share of a model they have, and how the request is known."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sender:
    """The key that sent a request, its share when keys compete, and how urgent it may be."""

    key_name: str = ""
    weight: float = 1.0
    priority: int = 0

    def lowered_priority(self, asked: int | None) -> int:
        """Return the priority of a request: what it asked for, if that is lower."""
        return self.priority if asked is None else min(self.priority, asked)


@dataclass(frozen=True, slots=True)
class RequestIds:
    """How a request is known: by our own id, by its client's, and by who sent it."""

    own: str
    client: str | None
    sender: Sender
