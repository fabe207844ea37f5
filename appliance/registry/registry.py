"""Find models by any of their names, hand out the right to use them, and see them come and go."""

import asyncio
import difflib
from collections.abc import Callable
from dataclasses import dataclass

from appliance.errors import ModelNotFound, QueueFull
from appliance.manifest.spec import ModelSpec, ServerSpec
from appliance.registry.card import CardIndex
from appliance.registry.lease import Lease, Tally, Title, over
from appliance.registry.observed import ObservedModel
from appliance.registry.phase import PHASES, UNLOAD_REASONS, ModelStatus
from appliance.registry.report import observe, report
from appliance.registry.resident import Resident
from appliance.registry.seat import Seat
from appliance.registry.surroundings import Surroundings
from appliance.registry.wording import Voice
from appliance.telemetry.metrics import Metrics


@dataclass(frozen=True)
class Served:
    """What a name leads to. `name` is never an alias.

    `spec` is that name's, with the load of the copy in use; a profile has its base's resident.
    """

    name: str
    spec: ModelSpec
    resident: Resident


@dataclass
class _Entry:
    """One model or profile that requests may name."""

    seat: Seat
    spec: ModelSpec


class Registry:
    """Every model of the manifest in force, and what is still in memory of those before.

    Event loop only. Nothing here waits but `stop`: what takes time runs in tasks, and each phase
    change and each end of such a task calls `on_change`, which must not block.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.cards = CardIndex(surroundings.store, surroundings.folder)
        self._around = surroundings
        self._server = ServerSpec()
        self._is_serving = False
        self._seats: dict[str, Seat] = {}
        self._names: dict[str, _Entry] = {}
        self._titles: frozenset[str] = frozenset()  # names without aliases
        self._tallies: dict[str, Tally] = {}

    # --- what is wanted

    def serve(self, models: tuple[ModelSpec, ...], server: ServerSpec) -> None:
        """Put names, aliases, profiles and policies in force, at once; nothing is loaded for it.

        New models are absent. What is not named any more is not found, and stays in memory until
        `unload`.
        """
        self._server, self._is_serving = server, True
        bases = {spec.name: spec for spec in models if not spec.is_profile}
        before, self._seats = self._seats, {}
        for spec in bases.values():
            seat = before.pop(spec.name, None)
            self._seats[spec.name] = seat or Seat(spec, self._around, self._on_seat_change)
        self._seats |= before
        for seat in before.values():
            seat.retire()
        self._names = {
            name: _Entry(self._seats[spec.like or spec.name], spec)
            for spec in models
            for name in (spec.name, *spec.aliases)
        }
        for spec in bases.values():
            profiles = tuple(each for each in models if each.like == spec.name)
            self._seats[spec.name].adopt((spec, *profiles), server.limits.request_timeout)
        self._titles = frozenset(spec.name for spec in models)
        for spec in models:
            self._tallies.setdefault(spec.name, Tally())
        self._sweep()

    def load(self, name: str, spec: ModelSpec, promised_bytes: int) -> None:
        """Start bringing a model into memory, and keep it there; raises ModelNotFound."""
        self._seat(name).load(spec, promised_bytes)

    def unload(self, name: str, reason: str) -> None:
        """Let a model drain and end its worker; its next lease loads it again.

        A model that is not served any more is then forgotten. `reason` begins with one of
        UNLOAD_REASONS, or is a text for the log. Idempotent, also for unknown names.
        """
        if name in self._seats:
            self._seats[name].unload(reason)

    def swap(self, name: str, spec: ModelSpec, promised_bytes: int) -> None:
        """Start a second copy, which takes over once it is verified; raises ModelNotFound.

        The old one then drains. If the new one fails for good, the old one stays.
        """
        self._seat(name).replace(spec, promised_bytes, is_held=False)

    def reload(self, name: str, spec: ModelSpec, promised_bytes: int) -> None:
        """Replace the only copy that fits; raises ModelNotFound.

        Once the new copy's files are there, it has the name and its requests wait; it starts when
        the old copy has drained and ended. If it fails for good, what was before is loaded again.
        """
        self._seat(name).replace(spec, promised_bytes, is_held=True)

    def forget_failures(self, name: str | None = None) -> None:
        """Let what failed for good be tried again: one model's loads, None = everyone's."""
        for seat in self._seats.values():
            if name in (None, seat.name):
                seat.forget_failures()

    async def stop(self) -> None:
        """End every worker now."""
        await asyncio.gather(*(seat.stop() for seat in self._seats.values()))

    # --- what is asked for

    def names(self) -> tuple[str, ...]:
        """Return every name that is found: each model's and profile's, followed by its aliases."""
        return tuple(self._names)

    def find(self, name: str) -> Served:
        """Return what a name or alias leads to; raises ModelNotFound with a near name."""
        entry = self._entry(name)
        resident = entry.seat.resident
        return Served(entry.spec.name, over(entry.spec, resident.spec), resident)

    def lease(self, name: str) -> Lease:
        """Take the right to use a model; raises ModelNotFound or QueueFull at once, never waits."""
        entry = self._entry(name)
        spec, seat = entry.spec, entry.seat
        queue = spec.limits.queue or self._server.limits.queue_per_model
        if seat.resident.num_leases >= seat.resident.spec.engine.num_slots + queue:
            raise QueueFull(spec.name, queue)
        seat.note_lease()
        title = Title(seat, spec, self._tallies[spec.name], lambda: self._on_release(entry))
        return Lease(title, seat.resident)

    async def voice(self, name: str) -> Voice:
        """Return how to make prompts for a model that need not be in memory, nor will be for it.

        No lease is taken, and it is no use of the model. Raises ModelNotFound, or ModelNotReady
        while its files are not here. A scripted model has no name in the text process.
        """
        entry, spec = self._entry(name), self.find(name).spec
        if spec.is_scripted():
            return Voice(spec, "")
        return Voice(spec, await entry.seat.text_name(spec.chat.template))

    # --- what there is

    def observed(self) -> tuple[ObservedModel, ...]:
        """Return every model that is served, or of which something is still in memory."""
        return tuple(observe(seat) for seat in tuple(self._seats.values()))

    def statuses(self) -> tuple[ModelStatus, ...]:
        """Return how every model looks now, in the manifest's order; then those that leave."""
        seats = tuple(self._seats.values())
        return tuple(report(seat, self._around.wish_of(seat.spec)) for seat in seats)

    def is_converged(self) -> bool:
        """Say whether every model that must be in memory answers; False before any is known."""
        return self._is_serving and all(
            seat.resident.loaded is not None
            for seat in self._seats.values()
            if seat.is_served and self._around.wish_of(seat.spec) == "must"
        )

    def refresh_gauges(self, metrics: Metrics) -> None:
        """Set the gauges that are counted rather than kept; called at each scrape."""
        for name, tally in self._tallies.items():
            if not tally.is_shown:
                tally.is_shown = True
                self._show(name, metrics)
            metrics.requests_running.labels(name).set(tally.num_running)
            metrics.requests_waiting.labels(name).set(tally.num_leases - tally.num_running)
        for seat in self._seats.values():
            copies = tuple(seat.copies())
            metrics.batch_size.labels(seat.name).set(sum(copy.batch_size for copy in copies))
            metrics.memory_bytes.labels(seat.name, "engine").set(
                sum(copy.memory_bytes for copy in copies)
            )

    def _seat(self, name: str) -> Seat:
        seat = self._seats.get(name)
        if seat is None:
            raise ModelNotFound(name)
        return seat

    def _entry(self, name: str) -> _Entry:
        entry = self._names.get(name)
        if entry is None:
            near = difflib.get_close_matches(name, self._names, n=1)
            raise ModelNotFound(name, suggestion=near[0] if near else None)
        return entry

    def _on_release(self, entry: _Entry) -> None:
        entry.seat.note_release()
        if entry.spec.name not in self._titles:
            # The request is yet to be counted under the name that is gone.
            asyncio.get_running_loop().call_soon(self._sweep)

    def _on_seat_change(self, seat: Seat) -> None:
        self._sweep()
        if self._seats.get(seat.name) is seat:
            self._show_phase(seat)
        self.on_change()

    def _show(self, name: str, metrics: Metrics) -> None:
        """Begin a name's series; not sooner than somebody looks, since they are many."""
        if name in self._seats:
            metrics.add_model(name, PHASES, UNLOAD_REASONS)
            self._show_phase(self._seats[name])
        else:
            metrics.add_profile(name)

    def _show_phase(self, seat: Seat) -> None:
        self._around.metrics.set_phase(seat.name, seat.phase.value, PHASES)

    def _sweep(self) -> None:
        """Forget models that are neither served nor in memory, and names that nobody uses."""
        for name, seat in tuple(self._seats.items()):
            if not seat.is_served and seat.is_empty:
                del self._seats[name]
        for name, tally in tuple(self._tallies.items()):
            is_gone = name not in self._titles and name not in self._seats
            if is_gone and not tally.num_leases:
                del self._tallies[name]
                self._around.metrics.drop_model(name, PHASES, UNLOAD_REASONS)
