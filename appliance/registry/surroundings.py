"""Name what every model in memory needs of the appliance."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from appliance.chat.client import TextProcess
from appliance.manifest.source import Source
from appliance.manifest.spec import ModelSpec
from appliance.telemetry.metrics import Metrics
from appliance.telemetry.progress import ProgressSink

if TYPE_CHECKING:
    from appliance.registry.lease import Lease

Wish = Literal["must", "may", "must_not"]


class Store(Protocol):
    """Where model files come from."""

    async def materialise(
        self, source: Source, *, folder: Path, on_progress: Callable[[str, int, int], None]
    ) -> Path:
        """Return the model's folder (or script file), fetching and converting what is missing."""

    def find_cached(self, source: Source, *, folder: Path) -> Path | None:
        """Return the same without any work or network, None if it needs some. Blocking."""


@dataclass(frozen=True)
class Surroundings:
    """What every resident shares.

    `folder` is what relative paths in the manifest start from; `worker_arguments` go to every
    worker's command line: how it logs.

    `verify` asks a copy its golden prompts before it takes traffic; it returns what failed, None =
    nothing, and may use the lease until then. `admit` is awaited before a load that a lease
    starts: it waits for room and returns the bytes promised, or raises Unavailable. `wish_of`
    says whether a model must, may or must not be in memory: an operator may want what its spec does
    not.
    """

    store: Store
    text: TextProcess
    metrics: Metrics
    folder: Path
    on_progress: ProgressSink
    verify: Callable[[str, ModelSpec, "Lease"], Awaitable[str | None]]
    admit: Callable[[str], Awaitable[int]]
    wish_of: Callable[[ModelSpec], Wish]
    worker_arguments: tuple[str, ...] = ()
