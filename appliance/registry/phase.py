"""Name the phases of a model in memory, and what status says about them."""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where a resident stands."""

    ABSENT = "absent"
    """Not in memory; the next lease loads it."""
    DOWNLOADING = "downloading"
    """Its files are being fetched or converted."""
    LOADING = "loading"
    """Its worker is starting and reading weights."""
    READY = "ready"
    """It answers."""
    FAILED = "failed"
    """It could not be had; retried after a back-off unless only a new manifest can help."""


PHASES = tuple(phase.value for phase in Phase)


@dataclass(frozen=True)
class WorkProgress:
    """How far a download, conversion or load has come; `total` 0 = unknown."""

    phase: str
    done: int
    total: int


@dataclass(frozen=True)
class ModelStatus:
    """What a model looks like from outside at one moment; times in seconds."""

    name: str
    phase: Phase
    reason: str
    seconds_in_phase: float
    is_required: bool
    requests: int
    restarts: int
    worker_pid: int | None
    context_tokens: int | None
    memory_bytes: int
    retry_in_seconds: float | None
    progress: WorkProgress | None
