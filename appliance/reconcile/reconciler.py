"""Make what runs what the manifest says: the one task that reads, plans, acts and plans again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from appliance.errors import ManifestError
from appliance.manifest.load import LoadedManifest
from appliance.manifest.spec import ModelSpec
from appliance.reconcile.board import Board
from appliance.reconcile.desired import Forecasts, desired_models, spec_key, touches
from appliance.reconcile.history import History, Override, Revision
from appliance.reconcile.plan import Action, DesiredModel, Plan, Verb, Wish, plan
from appliance.reconcile.records import Records
from appliance.reconcile.source import ManifestFile
from appliance.registry.registry import Registry
from appliance.telemetry.metrics import Metrics

_MOST_ROUNDS = 16
_QUIET = (Verb.KEEP, Verb.REFUSE)

log = structlog.get_logger()


@dataclass(frozen=True)
class Edit:
    """Who changed the manifest, and how: `file`, `apply`, `reload`, `rollback` or `start`."""

    who: str
    how: str


@dataclass(frozen=True)
class Accepted:
    """A revision that is in force, and whether that changed anything."""

    revision: Revision
    is_changed: bool


@dataclass(frozen=True)
class Means:
    """What the reconciler works with.

    `prepare` builds what a revision's server section needs, off the event loop, and returns what
    puts it in force at once.
    """

    registry: Registry
    records: Records
    forecasts: Forecasts
    metrics: Metrics
    prepare: Callable[[LoadedManifest], Awaitable[Callable[[], None]]]


class Reconciler:
    """The only writer of the manifest in force. Event loop only.

    `run` is the task that acts; `poke` and `poke_file` wake it, however often, and it makes one
    more pass after the last. `reload`, `put` and `override` may be awaited by anybody.
    """

    def __init__(self, file: ManifestFile, loaded: LoadedManifest, means: Means) -> None:
        self.file = file
        self.loaded = loaded
        self.board = Board(means.registry)
        self._means = means
        self.has_started = asyncio.Event()
        self._machine_bytes = 0
        self._overrides: list[Override] = []
        self._unsized: set[str] = set()
        self._poked = asyncio.Event()
        self._file_changed = False
        self._editing = asyncio.Lock()

    async def start(self, machine_bytes: int) -> None:
        """Put the manifest that was loaded in force, and remember it if the history lacks it.

        `machine_bytes` is what the machine can give; `memory.budget` is a part of it.
        """
        self._machine_bytes = machine_bytes
        self._overrides = await self._means.records(History.overrides)
        await self._adopt(self.loaded, Edit("", "start"), is_changed=True)
        self.has_started.set()

    async def run(self) -> None:
        """Converge, and again whenever poked, until cancelled."""
        while True:
            await self._poked.wait()
            self._poked.clear()
            if self._file_changed:
                self._file_changed = False
                await self._follow_file()
            await self._converge()

    def poke(self) -> None:
        """Look again at what runs."""
        self._poked.set()

    def poke_file(self) -> None:
        """Look again at the file, too."""
        self._file_changed = True
        self._poked.set()

    async def reload(self, edit: Edit) -> Accepted:
        """Read the file now; raises ManifestError, after which the old revision is in force."""
        async with self._editing:
            try:
                loaded = await asyncio.to_thread(self.file.read)
            except ManifestError as error:
                self._reject(error)
                raise
            return await self._adopt(loaded, edit)

    async def put(self, text: str, edit: Edit, *, if_match: str | None = None) -> Accepted:
        """Make `text` the manifest: the rename of its file is the commit.

        Raises ManifestError, ManifestChanged and ManifestReadOnly; nothing has changed then.
        """
        async with self._editing:
            loaded = await asyncio.to_thread(self.file.check, text)
            await asyncio.to_thread(self.file.write, text, if_match)
            return await self._adopt(loaded, edit)

    async def preview(self, text: str | None) -> Plan:
        """Return what would be done for a text, None = the file as it is; raises ManifestError."""
        if text is None:
            loaded = await asyncio.to_thread(self.file.read)
        else:
            loaded = await asyncio.to_thread(self.file.check, text)
        return (await self._plan(loaded))[0]

    async def override(self, spec: ModelSpec, override: Override | None) -> None:
        """Put an operator's wish for a model in force until a revision touches it; None = none."""
        records = self._means.records
        if override is None:
            await records(History.drop_override, spec.name)
        else:
            await records(History.put_override, override)
        self._overrides = await records(History.overrides)
        self._means.registry.forget_failures()
        self.poke()

    def override_of(self, spec: ModelSpec) -> Override | None:
        """Return the wish in force for a model."""
        made = (each for each in self._overrides if each.model == spec.name)
        return next((each for each in made if touches(each, spec)), None)

    def wish_of(self, spec: ModelSpec) -> Wish:
        """Return whether a model must, may or must not be in memory, as it is in force."""
        spec = next((one for one in self.loaded.manifest.models if one.name == spec.name), spec)
        override = self.override_of(spec)
        return override.wish if override else spec.residency_wish

    async def forecast(self, spec: ModelSpec) -> int | None:
        """Return the bytes that a model will hold, None before its files are there."""
        return await self._means.forecasts.of(spec)

    @property
    def budget_bytes(self) -> int:
        """What all models together may hold."""
        return self.loaded.manifest.memory.budget_bytes(self._machine_bytes)

    async def _follow_file(self) -> None:
        async with self._editing:
            try:
                loaded = await asyncio.to_thread(self.file.read)
            except ManifestError as error:
                self._reject(error)
                return
            # What `put` wrote comes back here as well, and a mistake that was taken back.
            if loaded.etag != self.loaded.etag or self.board.is_rejected:
                await self._adopt(loaded, Edit("", "file"))

    def _reject(self, error: ManifestError) -> None:
        problems = [str(problem) for problem in error.problems]
        log.error("manifest_rejected", problems=problems)
        self._means.metrics.config_last_reload_successful.set(0)
        self.board.note_rejected(problems)

    async def _adopt(
        self, loaded: LoadedManifest, edit: Edit, *, is_changed: bool = False
    ) -> Accepted:
        """Put a manifest in force; its text stands in the file already."""
        is_changed |= loaded.revision != self.loaded.revision
        take_force = await self._means.prepare(loaded) if is_changed else None
        revision = await self._means.records(
            History.record,
            revision=loaded.revision,
            etag=loaded.etag,
            text=loaded.text,
            who=edit.who,
            how=edit.how,
        )
        before, self.loaded = self.loaded, loaded
        if take_force is not None:
            self._means.registry.forget_failures()
            self._means.registry.serve(loaded.manifest.models, loaded.manifest.server)
            take_force()
            await self._drop_overrides(loaded)
        self._note_accepted(before, revision)
        log.info(
            "manifest_accepted",
            number=revision.number,
            revision=revision.revision,
            how=edit.how,
            who=edit.who,
            is_changed=is_changed,
        )
        self.poke()
        return Accepted(revision, is_changed)

    async def _drop_overrides(self, loaded: LoadedManifest) -> None:
        keys = {spec.name: spec_key(spec) for spec in loaded.manifest.models}
        for override in self._overrides:
            if keys.get(override.model) != override.spec_key:
                await self._means.records(History.drop_override, override.model)
        self._overrides = await self._means.records(History.overrides)

    def _note_accepted(self, before: LoadedManifest, revision: Revision) -> None:
        metrics = self._means.metrics
        metrics.config_last_reload_successful.set(1)
        metrics.config_last_reload_success_timestamp_seconds.set(time.time())
        metrics.set_revision(before.revision, revision.revision)
        metrics.memory_budget_bytes.set(self.budget_bytes)
        self.board.note_accepted(revision, str(self.file.path), self.budget_bytes)

    async def _plan(self, loaded: LoadedManifest) -> tuple[Plan, tuple[DesiredModel, ...]]:
        desired = await desired_models(loaded, self._overrides, self._means.forecasts)
        budget = loaded.manifest.memory.budget_bytes(self._machine_bytes)
        # In a thread: for fifty models it takes longer than streams should wait.
        observed = self._means.registry.observed()
        return await asyncio.to_thread(plan, desired, observed, budget), desired

    async def _converge(self) -> None:
        begin = time.monotonic()
        result = "quiet"
        for _ in range(_MOST_ROUNDS):
            made, desired = await self._plan(self.loaded)
            if self._check_sizes(desired):
                continue
            self.board.note_plan(made, desired, self._overrides)
            actions = [each for each in made.startable() if each.verb not in _QUIET]
            if not actions:
                break  # what is left waits for memory that is on its way back
            result = "acted"
            for action in actions:
                if not self._act(action, desired):
                    result = "failed"
        else:
            log.error("reconcile_restless", rounds=_MOST_ROUNDS)
            result = "failed"
        self._means.metrics.reconcile_total.labels(result).inc()
        self._means.metrics.reconcile_seconds.observe(time.monotonic() - begin)

    def _check_sizes(self, desired: tuple[DesiredModel, ...]) -> bool:
        """Promise what was unknown when a load began; True if one has to stop, being too large."""
        registry = self._means.registry
        known = {
            each.spec.name: each
            for each in desired
            if each.spec.name in self._unsized and each.forecast_bytes is not None
        }
        for name, each in known.items():
            self._unsized.discard(name)
            size = each.forecast_bytes or 0
            held = sum(one.held_bytes for one in registry.observed() if one.name != name)
            if held + size > self.budget_bytes:
                log.warning("load_stopped", model=name, needed_bytes=size, held_bytes=held)
                registry.unload(name, "its files are there, and it does not fit")
                return True
            registry.load(name, each.spec, size)
        return False

    def _act(self, action: Action, desired: tuple[DesiredModel, ...]) -> bool:
        """Start what an action says; False if that failed, which stops no other."""
        wanted = next((each for each in desired if each.spec.name == action.model), None)
        log.info("action_started", verb=action.verb, model=action.model, reason=action.reason)
        try:
            self._start(action, wanted)
        except Exception:  # the guard of each action: one model's fault is not another's
            log.exception("action_failed", verb=action.verb, model=action.model)
            return False
        return True

    def _start(self, action: Action, wanted: DesiredModel | None) -> None:
        registry = self._means.registry
        if action.verb is Verb.UNLOAD:
            registry.unload(action.model, action.reason)
        if wanted is None:
            return
        if action.verb is not Verb.UNLOAD and wanted.forecast_bytes is None:
            self._unsized.add(action.model)
        promised = wanted.forecast_bytes or 0
        match action.verb:
            case Verb.LOAD:
                registry.load(action.model, wanted.spec, promised)
            case Verb.SWAP:
                registry.swap(action.model, wanted.spec, promised)
            case Verb.RELOAD:
                registry.reload(action.model, wanted.spec, promised)
            case _:
                pass
