"""Decide which copy of a model takes its requests, and see the others come and go."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import structlog

from appliance.errors import ModelNotReady
from appliance.manifest.spec import ModelSpec
from appliance.registry.idle import IdleTimer
from appliance.registry.lease import Lease, Tally, Title
from appliance.registry.phase import Phase, unload_reason
from appliance.registry.resident import Overseer, Resident
from appliance.registry.surroundings import Surroundings

log = structlog.get_logger()


@dataclass(frozen=True)
class Failure:
    """A load that failed for good; `key` is its load key."""

    key: str
    reason: str


@dataclass(frozen=True)
class Fallback:
    """What a copy had loaded that has left for another, which may yet fail."""

    spec: ModelSpec
    held_bytes: int


class Seat:
    """Every copy of one model: the one with the name, one to replace it, and those that leave.

    `spec` is the policy in force and `key` its load key; the copies' own specs say what they have
    loaded. Event loop only. What has happened to copies is acted on in `settle`: a loop turn later,
    or when asked.
    """

    def __init__(
        self, spec: ModelSpec, surroundings: Surroundings, on_change: Callable[["Seat"], None]
    ) -> None:
        self.name = spec.name
        self.spec = spec
        self.key = spec.load_key()
        self.is_served = True
        self.num_leases = 0
        self.incoming: Resident | None = None
        self.leaving: dict[Resident, asyncio.Task[None]] = {}
        self.failed: Failure | None = None
        self.idle = IdleTimer(self._on_idle)
        self.policies: tuple[ModelSpec, ...] = (spec,)  # its own, then its profiles'
        self._around = surroundings
        self._on_change = on_change
        self._drain_seconds = 0.0
        self._overseer = Overseer(self._settle_soon, self._verify)
        self._answering: Resident | None = None  # the last that was seen to be ready
        self._fallback: Fallback | None = None
        self._admission: asyncio.Task[None] | None = None
        self._is_unsettled = False
        self.resident = self._new(spec)

    @property
    def phase(self) -> Phase:
        """Where the copy with the name stands, or the one that leaves if nothing is to follow."""
        is_draining = any(copy.failure is None for copy in self.leaving)
        if is_draining and not self.resident.has_begun:
            return Phase.DRAINING
        return self.resident.phase

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the model is in memory, nor on its way in or out."""
        return not self.resident.has_begun and self.incoming is None and not self.leaving

    # --- what the manifest says

    def adopt(self, specs: tuple[ModelSpec, ...], drain_seconds: float) -> None:
        """Put policies in force: the model's own first, then those of its profiles."""
        self.spec, self.policies = specs[0], specs
        self._drain_seconds = drain_seconds
        self.is_served = True
        self.key = key = self.spec.load_key()
        resident, incoming = self.resident, self.incoming
        if resident.failure is not None and resident.key != key:
            resident = self._renew()
        if not resident.has_begun and resident.key != key:
            resident.wording.forget_soon()
        if not resident.has_begun or resident.key == key:
            resident.adopt(self.spec, key)
        if incoming is not None and incoming.key == key:
            incoming.adopt(self.spec, key)
        elif incoming is not None:
            self._drop_incoming()
        self._want_templates()
        is_kept = self.spec.residency_wish == "must"
        self.idle.set_limit(None if is_kept else self.spec.residency.idle_unload)

    def retire(self) -> None:
        """Be found no more. What is in memory stays until `unload`."""
        self.is_served = False
        if not self.resident.has_begun:
            self.resident.wording.forget_soon()

    def forget_failures(self) -> None:
        """Let what failed for good be tried again."""
        self.failed = None
        self.resident.wording.forgive()
        if self.resident.failure is not None:
            self._renew()

    # --- what is in memory

    def load(self, spec: ModelSpec, promised_bytes: int) -> None:
        """Bring the model into memory, and keep it there."""
        resident, key = self.resident, spec.load_key()
        if resident.failure is not None:
            resident = self._renew()
        if not resident.has_begun:
            resident.adopt(spec, key)
        elif resident.key != key:
            self.replace(spec, promised_bytes, is_held=True)
            return
        self._drop_incoming()
        self.failed = None
        resident.load(promised_bytes, is_held=bool(self.leaving))
        self._want_templates()
        self._settle_soon()

    def replace(self, spec: ModelSpec, promised_bytes: int, *, is_held: bool) -> None:
        """Load another copy, and give it the name once it is ready.

        With `is_held` it gets the name as soon as its files are there, and starts once the old
        copy is gone.
        """
        key = spec.load_key()
        if not self.resident.is_alive or self.resident.key == key:
            self.load(spec, promised_bytes)
            return
        if self.incoming is not None and self.incoming.key != key:
            self._drop_incoming()
        self.failed = None
        self.incoming = self.incoming or self._new(spec)
        self.incoming.is_replacement = True
        self.incoming.load(promised_bytes, is_held=is_held)
        self._settle_soon()

    def unload(self, reason: str) -> None:
        """Let what is in memory drain and end."""
        self._drop_incoming()
        self._fallback = None
        if self.resident.has_begun:
            old, self.resident = self.resident, self._new(self.spec)
            self._let_go(old, reason)
        self._settle_soon()

    async def stop(self) -> None:
        """End every copy now, and load none any more."""
        self.is_served = False
        self.idle.stop()
        tasks = [*self.leaving.values(), *([self._admission] if self._admission else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(copy.unload() for copy in self.copies()))

    # --- what needs no memory

    async def text_name(self, template: str) -> str:
        """Return what the text process calls the model under `template`; raises ModelNotReady.

        The model's files are enough, in memory or not. Nothing is fetched and nothing loaded. What
        was read of a model that is not in memory is forgotten after its idle time.
        """
        resident, key = self.resident, self.resident.key
        wording = resident.wording
        if not wording.is_open:
            find = self._around.store.find_cached
            source, folder = resident.spec.parsed_source(), self._around.folder
            directory = await asyncio.to_thread(find, source, folder=folder)
            if directory is None:
                raise ModelNotReady(self.name, "its files are not on this machine yet")
            if not self.is_served or (resident, key) != (self.resident, resident.key):
                raise ModelNotReady(self.name, "it has just been replaced")
            wording.open(directory)
        if not (self.num_leases or resident.has_begun):
            self.idle.rest()
        await wording.ready(template)
        return wording.name(template)

    # --- leases

    async def wake(self, resident: Resident) -> None:
        """If `resident` has the name, see to it that it has begun to load; raises Unavailable."""
        if resident is not self.resident or resident.has_begun or not self.is_served:
            return
        if self._admission is None or self._admission.done():
            self._admission = asyncio.create_task(self._admit(), name=f"admit-{self.name}")
            self._admission.add_done_callback(lambda each: each.cancelled() or each.exception())
        await asyncio.shield(self._admission)

    def successor(self, resident: Resident) -> Resident | None:
        """Return the copy that has the name instead of `resident`, None if there is none."""
        self.settle()
        return self.resident if self.is_served and self.resident is not resident else None

    def note_lease(self) -> None:
        """Count one more request."""
        self.num_leases += 1
        self.idle.use()

    def note_release(self) -> None:
        """Count one request less."""
        self.num_leases -= 1
        if self.num_leases == 0:
            self.idle.rest()
            self.resident.wording.sweep()

    def _on_idle(self) -> None:
        if not self.resident.has_begun:
            self.resident.wording.forget_soon()
        is_settled = self.resident.phase is Phase.READY and self.incoming is None
        if is_settled and self._around.wish_of(self.spec) == "may":
            self.unload("idle")

    async def _admit(self) -> None:
        promised = await self._around.admit(self.name)
        # Those who waited may have gone, and another's load may have begun.
        if self.num_leases and self.is_served and not self.resident.has_begun:
            self.load(self.spec, promised)

    async def _verify(self, resident: Resident) -> str | None:
        title = Title(self, resident.spec, Tally(), lambda: None)
        lease = Lease(title, resident, is_test=True)
        try:
            return await self._around.verify(self.name, resident.spec, lease)
        finally:
            lease.release()

    # --- copies

    def _new(self, spec: ModelSpec) -> Resident:
        return Resident(spec, self._around, self._overseer)

    def _renew(self) -> Resident:
        """Put a copy that has not begun in the place of one that has ended by itself."""
        old, self.resident = self.resident, self._new(self.spec)
        self._let_go(old, "replaced")
        return self.resident

    def copies(self) -> Iterator[Resident]:
        """Yield every copy that is not gone."""
        yield self.resident
        if self.incoming is not None:
            yield self.incoming
        yield from self.leaving

    def _drop_incoming(self) -> None:
        incoming, self.incoming = self.incoming, None
        if incoming is not None:
            self._let_go(incoming, "replaced")

    def _let_go(self, old: Resident, reason: str) -> None:
        old.leave(reason)
        task = asyncio.create_task(old.drain(self._drain_seconds), name=f"drain-{self.name}")
        self.leaving[old] = task
        task.add_done_callback(partial(self._on_gone, old, reason))

    def _on_gone(self, old: Resident, reason: str, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        del self.leaving[old]
        if (error := task.exception()) is not None:
            log.error("model_drain_failed", model=self.name, error=repr(error))
        if old.has_answered:
            self._around.metrics.model_unloads_total.labels(self.name, unload_reason(reason)).inc()
            log.info("model_unloaded", model=self.name, reason=reason)
        self._settle_soon()

    def _settle_soon(self) -> None:
        if not self._is_unsettled:
            self._is_unsettled = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._is_unsettled = False
        self.settle()
        self._on_change(self)

    def settle(self) -> None:
        """Act on what has happened to the copies. Idempotent."""
        self._settle_incoming()
        self._settle_failure()
        if self.resident.has_begun and not self.leaving:
            self.resident.open_gate()
        if self.resident.phase is Phase.READY and self._answering is not self.resident:
            self._answering = self.resident
            self._fallback = None
            if not self.num_leases:
                self.idle.rest()

    def _settle_incoming(self) -> None:
        incoming = self.incoming
        if incoming is None:
            return
        keeps_old = not incoming.has_failed_verify or self.spec.verify.on_failure == "keep_old"
        if incoming.failure is not None and keeps_old:
            self._note_failure(incoming)
            self._drop_incoming()
        elif incoming.failure is not None or incoming.phase is Phase.READY:
            self._promote(incoming)
        elif incoming.is_held and incoming.has_files:
            old = self.resident
            if old.has_answered:
                self._fallback = Fallback(old.spec, old.held_bytes)
            self._promote(incoming)

    def _promote(self, incoming: Resident) -> None:
        old, self.resident, self.incoming = self.resident, incoming, None
        self._want_templates()
        self._let_go(old, "replaced")

    def _settle_failure(self) -> None:
        failed, fallback = self.resident, self._fallback
        if failed.failure is None:
            return
        self._note_failure(failed)
        self._fallback = None
        if failed.has_failed_verify and self.spec.verify.on_failure == "fail":
            return
        if fallback is not None:
            self.resident = self._new(fallback.spec)
            self._let_go(failed, "replaced")
            self.resident.load(fallback.held_bytes, is_held=True)
            self._want_templates()

    def _note_failure(self, failed: Resident) -> None:
        if failed.failure is not None:
            self.failed = Failure(failed.key, failed.failure)

    def _want_templates(self) -> None:
        self.resident.wording.want(spec.chat.template for spec in self.policies)
