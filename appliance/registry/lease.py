"""Give one request the right to use a model, and count who uses what."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import ModelNotReady
from appliance.manifest.spec import ModelSpec
from appliance.registry.resident import Loaded, Resident

if TYPE_CHECKING:
    from appliance.registry.seat import Seat


@dataclass
class Tally:
    """How many requests under one name hold a lease, and how many of those run.

    `is_shown`: the name's series have begun.
    """

    num_leases: int = 0
    num_running: int = 0
    is_shown: bool = False


@dataclass(frozen=True)
class Title:
    """What a lease is taken under: a seat, the spec of the name asked for, and who counts it."""

    seat: "Seat"
    spec: ModelSpec
    tally: Tally
    on_release: Callable[[], None]


class Lease:
    """The right to use a resident for one request. Event loop only; `release` is idempotent.

    `spec` is that of the name asked for, with the load of the copy in use. Until `ready` has
    returned once the lease follows its name to another copy; from then on it stays with its own.
    """

    __slots__ = (
        "_has_begun",
        "_is_released",
        "_is_running",
        "_is_test",
        "_title",
        "resident",
        "spec",
    )

    def __init__(self, title: Title, resident: Resident, *, is_test: bool = False) -> None:
        """With `is_test` the copy is not verified yet, and the lease never leaves it."""
        self.resident = resident
        self.spec = over(title.spec, resident.spec)
        self._title = title
        self._has_begun = self._is_test = is_test
        self._is_released = False
        self._is_running = False
        resident.acquire()
        title.tally.num_leases += 1

    @property
    def text_name(self) -> str:
        """What the text process calls the copy under this name's template."""
        return self.resident.wording.name(self.spec.chat.template)

    async def ready(self, *, is_patient: bool = False) -> Loaded:
        """Wait until the model answers, loading it if need be; raises Unavailable. See Resident."""
        while True:
            resident = self.resident
            try:
                if not self._has_begun:
                    await self._title.seat.wake(resident)
                loaded = await resident.ready(is_patient=is_patient, is_test=self._is_test)
                await resident.wording.ready(self.spec.chat.template)
            except ModelNotReady:
                if not self._follow():
                    raise
                continue
            self._has_begun = True
            return loaded

    def again(self) -> "Lease":
        """Return another lease on the same copy, under the same name."""
        return Lease(self._title, self.resident, is_test=self._is_test)

    def mark_running(self, is_running: bool) -> None:
        """Count the request among those that the engine works on, or those that wait."""
        is_running = is_running and not self._is_released
        self._title.tally.num_running += is_running - self._is_running
        self._is_running = is_running

    def release(self) -> None:
        """Give the right back; unloading waits for the last one."""
        if not self._is_released:
            self._is_released = True
            self.mark_running(False)
            self._title.tally.num_leases -= 1
            self.resident.release()
            self._title.on_release()

    def _follow(self) -> bool:
        """Move to the copy that has the name now; False if it is the same, or too late for that."""
        if self._has_begun or self._is_released:
            return False
        successor = self._title.seat.successor(self.resident)
        if successor is None:
            return False
        self.resident.release()
        successor.acquire()
        self.resident = successor
        self.spec = over(self._title.spec, successor.spec)
        return True


def over(policy: ModelSpec, loaded: ModelSpec) -> ModelSpec:
    """Return `policy` with what needs a load taken from `loaded`."""
    if policy is loaded:
        return policy
    engine = loaded.engine.model_copy(update={"step_timeout": policy.engine.step_timeout})
    update = {"source": loaded.source, "kind": loaded.kind, "engine": engine}
    return policy.model_copy(update=update)
