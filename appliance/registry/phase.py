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
    VERIFYING = "verifying"
    """It answers its verify prompts, and nobody else yet."""
    READY = "ready"
    """It answers."""
    DRAINING = "draining"
    """It finishes what it has begun, takes nothing new, and then leaves memory."""
    FAILED = "failed"
    """It could not be had; retried after a back-off unless only a new manifest can help."""


PHASES = tuple(phase.value for phase in Phase)

UNLOAD_REASONS = ("manifest", "idle", "contention", "operator", "replaced")
"""Why a model left memory, for the metric: `replaced` by another copy of the same name."""


def unload_reason(text: str) -> str:
    """Return which of UNLOAD_REASONS a text begins with (`idle: …`), else `manifest`."""
    word = text.partition(":")[0]
    return word if word in UNLOAD_REASONS else "manifest"


@dataclass(frozen=True)
class WorkProgress:
    """How far a download, conversion or load has come; `total` 0 = unknown."""

    phase: str
    done: int
    total: int


@dataclass(frozen=True)
class ModelStatus:
    """What a model looks like from outside at one moment; times in seconds.

    `wish` is the one in force: must, may or must_not. Keys are load keys: `desired_key` of the
    manifest, `observed_key` of what is in memory or on its way there, `incoming_key` of a copy that
    is to replace it, `failed_key` of a load that failed for good. `last_error` outlives the failure
    until what is desired was loaded. `profiles` are the further names under which it answers.
    """

    name: str
    phase: Phase
    reason: str
    seconds_in_phase: float
    is_required: bool
    wish: str
    desired_key: str
    observed_key: str | None
    incoming_key: str | None
    failed_key: str | None
    requests: int
    restarts: int
    worker_pid: int | None
    context_tokens: int | None
    memory_bytes: int
    held_bytes: int
    retry_in_seconds: float | None
    last_error: str | None
    progress: WorkProgress | None
    profiles: tuple[str, ...]
