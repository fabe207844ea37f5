"""Find memory for a model that a request wakes: wait for it, and send idle models away."""

import asyncio
import time

from appliance.errors import ModelNotReady, OutOfMemoryBudget
from appliance.manifest.spec import ModelSpec
from appliance.reconcile.headroom import Idle, choose_leaving
from appliance.reconcile.reconciler import Reconciler
from appliance.registry.observed import ObservedModel
from appliance.registry.phase import Phase
from appliance.registry.registry import Registry

_LOOK_SECONDS = 0.25


class Room:
    """The policy of `memory.contention`, for loads that a lease starts. Event loop only."""

    def __init__(self, registry: Registry, reconciler: Reconciler) -> None:
        self._registry = registry
        self._reconciler = reconciler

    async def admit(self, name: str) -> int:
        """Return the bytes that a model may hold, once they are there.

        Sends models away that may go, the least important and longest idle first, and waits as
        long as the manifest says. Raises OutOfMemoryBudget for a model that could never be loaded,
        ModelNotReady when time is out. The caller promises the bytes at once, before it awaits.
        """
        await self._reconciler.has_started.wait()
        spec = self._registry.find(name).resident.spec
        if self._reconciler.wish_of(spec) == "must_not":
            raise ModelNotReady(name, "an operator unloaded it")
        forecast = await self._reconciler.forecast(spec)
        if forecast is None:
            self._reconciler.note_unsized(spec)
        wanted = forecast or 0
        deadline = time.monotonic() + self._reconciler.loaded.manifest.memory.contention.wait
        while True:
            budget = self._reconciler.budget_bytes
            if wanted > budget:
                raise OutOfMemoryBudget(needed_bytes=wanted, limit_bytes=budget)
            observed = self._registry.observed()
            held = sum(each.held_bytes for each in observed if each.name != name)
            if held + wanted <= budget:
                return wanted
            self._send_away(observed, spec, held + wanted - budget)
            left = deadline - time.monotonic()
            if left <= 0:
                raise ModelNotReady(name, "other models hold the memory it needs")
            await asyncio.sleep(min(left, _LOOK_SECONDS))

    def _send_away(
        self, observed: tuple[ObservedModel, ...], newcomer: ModelSpec, missing: int
    ) -> None:
        """Unload idle models until enough will be free; nobody if that cannot be."""
        going = sum(each.held_bytes for each in observed if each.phase is Phase.DRAINING)
        idle = (
            Idle(each.name, each.held_bytes, each.spec.residency.priority, each.idle_seconds)
            for each in observed
            if each.name != newcomer.name and self._may_go(each, newcomer)
        )
        for each in choose_leaving(idle, missing - going):
            self._registry.unload(each.name, f"contention: {newcomer.name} needs its memory")

    def _may_go(self, model: ObservedModel, newcomer: ModelSpec) -> bool:
        return (
            model.phase is Phase.READY
            and model.num_leases == 0
            and self._reconciler.wish_of(model.spec) == "may"
            and model.spec.residency.priority <= newcomer.residency.priority
        )
