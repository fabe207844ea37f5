"""Find models by name or alias and hand out the right to use them."""

import asyncio
import difflib

from appliance.errors import ModelNotFound, QueueFull
from appliance.manifest.spec import ModelSpec, ServerSpec
from appliance.registry.phase import ModelStatus
from appliance.registry.resident import Loaded, Resident, Surroundings
from appliance.telemetry.metrics import Metrics


class Lease:
    """The right to use a resident for one request. Event loop only; `release` is idempotent."""

    __slots__ = ("_is_released", "_is_running", "resident")

    def __init__(self, resident: Resident) -> None:
        self.resident = resident
        self._is_released = False
        self._is_running = False
        resident.num_leases += 1

    async def ready(self, *, is_patient: bool = False) -> Loaded:
        """Wait until the model answers; see Resident."""
        return await self.resident.ready(is_patient=is_patient)

    def mark_running(self, is_running: bool) -> None:
        """Count the request among those that the engine works on, or those that wait."""
        is_running = is_running and not self._is_released
        self.resident.num_running += is_running - self._is_running
        self._is_running = is_running

    def release(self) -> None:
        """Give the right back; unloading waits for the last one."""
        if not self._is_released:
            self._is_released = True
            self.mark_running(False)
            self.resident.num_leases -= 1


class Registry:
    """Every configured model. Event loop only."""

    def __init__(
        self, models: tuple[ModelSpec, ...], server: ServerSpec, surroundings: Surroundings
    ) -> None:
        self._server = server
        self._residents = {spec.name: Resident(spec, surroundings) for spec in models}
        self._names = {
            name: self._residents[spec.name]
            for spec in models
            for name in (spec.name, *spec.aliases)
        }

    def start(self) -> None:
        """Begin to load every model that must be in memory."""
        for resident in self._residents.values():
            if resident.spec.residency.preload:
                resident.load()

    async def stop(self) -> None:
        """Unload everything."""
        await asyncio.gather(*(resident.unload() for resident in self._residents.values()))

    def names(self) -> tuple[str, ...]:
        """Return every model's name, without aliases, in the manifest's order."""
        return tuple(self._residents)

    def find(self, name: str) -> Resident:
        """Return the model of this name or alias; raises ModelNotFound with a near name."""
        resident = self._names.get(name)
        if resident is None:
            near = difflib.get_close_matches(name, self._names, n=1)
            raise ModelNotFound(name, suggestion=near[0] if near else None)
        return resident

    def lease(self, name: str) -> Lease:
        """Take the right to use a model; raises ModelNotFound or QueueFull at once, never waits."""
        resident = self.find(name)
        queue = resident.spec.limits.queue or self._server.limits.queue_per_model
        if resident.num_leases >= resident.spec.engine.num_slots + queue:
            raise QueueFull(resident.spec.name, queue)
        return Lease(resident)

    def statuses(self) -> tuple[ModelStatus, ...]:
        """Return how every model looks now, in the manifest's order."""
        return tuple(resident.status() for resident in self._residents.values())

    def refresh_gauges(self, metrics: Metrics) -> None:
        """Set the gauges that are counted rather than kept; called at each scrape."""
        for resident in self._residents.values():
            name = resident.spec.name
            waiting = resident.num_leases - resident.num_running
            metrics.requests_running.labels(name).set(resident.num_running)
            metrics.requests_waiting.labels(name).set(waiting)

    def is_converged(self) -> bool:
        """Say whether every model that must be in memory answers."""
        return all(
            resident.loaded is not None
            for resident in self._residents.values()
            if resident.spec.residency.preload
        )
