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
from appliance.reconcile.plan import Action, DesiredModel, Plan, Verb, plan
from appliance.reconcile.records import Records
from appliance.reconcile.source import ManifestFile
from appliance.registry.registry import Registry
from appliance.registry.surroundings import Wish
from appliance.telemetry.metrics import Metrics

_MOST_ROUNDS = 16
_RETRY_SECONDS = 5.0

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

    The one it is built with is in force already: the registry serves it, and an app answers.
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
        self._unsized: dict[str, str] = {}
        self._num_pokes = 0
        self._poked = asyncio.Event()
        self._file_changed = False
        self._editing = asyncio.Lock()

    async def start(self, machine_bytes: int) -> None:
        """Begin with the manifest that is in force, and remember it if the history lacks it.

        `machine_bytes` is what the machine can give; `memory.budget` is a part of it.
        """
        self._machine_bytes = machine_bytes
        self._overrides = await self._means.records(History.overrides)
        edit = Edit("", "start")
        revision = await self._record(self.loaded, edit)
        await self._announce(self.loaded, Accepted(revision, is_changed=True), edit)
        self.has_started.set()
        self.poke_file()  # it may have changed since it was loaded

    async def run(self) -> None:
        """Converge, and again whenever poked, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._poked.wait()
            self._poked.clear()
            try:
                await self._pass()
            except Exception:  # the reconciler's guard: it is the only one, and must not end
                log.exception("reconcile_failed", retry_seconds=_RETRY_SECONDS)
                self._means.metrics.reconcile_total.labels("failed").inc()
                loop.call_later(_RETRY_SECONDS, self.poke)

    async def _pass(self) -> None:
        if self._file_changed:
            self._file_changed = False
            try:
                await self._follow_file()
            except BaseException:
                self._file_changed = True
                raise
        await self._converge()

    def poke(self) -> None:
        """Look again at what runs."""
        self._num_pokes += 1
        self._poked.set()

    def poke_file(self) -> None:
        """Look again at the file, too."""
        self._file_changed = True
        self.poke()

    async def reload(self, edit: Edit) -> Accepted:
        """Read the file now; raises ManifestError, after which the old revision is in force."""
        await self.has_started.wait()
        async with self._editing:
            try:
                loaded = await asyncio.to_thread(self.file.read)
            except ManifestError as error:
                self._reject(error)
                raise
            return await self._adopt(loaded, edit)

    async def put(
        self, text: str, edit: Edit, *, if_match: str | None = None
    ) -> tuple[Accepted, Plan]:
        """Make `text` the manifest, and return what that was to do as well.

        The rename of the manifest's file is the commit.
        Raises ManifestError, ManifestChanged and ManifestReadOnly; nothing has changed then.
        """
        await self.has_started.wait()
        async with self._editing:
            loaded = await asyncio.to_thread(self.file.check, text)
            planned, _ = await self._plan(loaded)
            await asyncio.to_thread(self.file.write, text, if_match)
            return await self._adopt(loaded, edit), planned

    async def preview(self, text: str | None) -> Plan:
        """Return what would be done for a text, None = the file as it is; raises ManifestError."""
        await self.has_started.wait()
        if text is None:
            loaded = await asyncio.to_thread(self.file.read)
        else:
            loaded = await asyncio.to_thread(self.file.check, text)
        return (await self._plan(loaded))[0]

    async def override(self, spec: ModelSpec, override: Override | None) -> None:
        """Put an operator's wish for a model in force until a revision touches it; None = none."""
        await self.has_started.wait()
        records = self._means.records
        async with self._editing:
            if override is None:
                await records(History.drop_override, spec.name)
            else:
                await records(History.put_override, override)
            self._overrides = await records(History.overrides)
        self._means.registry.forget_failures(spec.name)
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
            same = (loaded.etag, loaded.revision) == (self.loaded.etag, self.loaded.revision)
            if not same or self.board.is_rejected:
                await self._adopt(loaded, Edit("", "file"))

    def _reject(self, error: ManifestError) -> None:
        problems = [str(problem) for problem in error.problems]
        log.error("manifest_rejected", problems=problems)
        self._means.metrics.config_last_reload_successful.set(0)
        self.board.note_rejected(problems)

    async def _adopt(self, loaded: LoadedManifest, edit: Edit) -> Accepted:
        """Put a manifest in force; its text stands in the file already."""
        is_changed = loaded.revision != self.loaded.revision
        take_force = await self._means.prepare(loaded) if is_changed else None
        revision = await self._record(loaded, edit)
        before, self.loaded = self.loaded, loaded
        if take_force is not None:
            self._means.registry.serve(loaded.manifest.models, loaded.manifest.server)
            take_force()
        return await self._announce(before, Accepted(revision, is_changed), edit)

    async def _record(self, loaded: LoadedManifest, edit: Edit) -> Revision:
        return await self._means.records(
            History.record,
            revision=loaded.revision,
            etag=loaded.etag,
            text=loaded.text,
            who=edit.who,
            how=edit.how,
        )

    async def _announce(self, before: LoadedManifest, accepted: Accepted, edit: Edit) -> Accepted:
        """Let everything know of the revision that is in force now."""
        await self._drop_overrides()
        self._forgive(before, edit)
        self._note_accepted(accepted.revision)
        log.info(
            "manifest_accepted",
            number=accepted.revision.number,
            revision=accepted.revision.revision,
            how=edit.how,
            who=edit.who,
            is_changed=accepted.is_changed,
        )
        self.poke()
        return accepted

    def _forgive(self, before: LoadedManifest, edit: Edit) -> None:
        """Let loads that failed for good be tried again: of models that changed, or all."""
        old = {spec.name: spec_key(spec) for spec in before.manifest.models}
        for spec in self.loaded.manifest.models:
            if edit.how == "reload" or old.get(spec.name) != spec_key(spec):
                self._means.registry.forget_failures(spec.name)

    async def _drop_overrides(self) -> None:
        keys = {spec.name: spec_key(spec) for spec in self.loaded.manifest.models}
        for override in self._overrides:
            if keys.get(override.model) != override.spec_key:
                await self._means.records(History.drop_override, override.model)
        self._overrides = await self._means.records(History.overrides)

    def _note_accepted(self, revision: Revision) -> None:
        metrics = self._means.metrics
        metrics.config_last_reload_successful.set(1)
        metrics.config_last_reload_success_timestamp_seconds.set(time.time())
        metrics.set_revision(revision.revision)
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
        num_rounds = 0
        while num_rounds < _MOST_ROUNDS:
            loaded, num_pokes = self.loaded, self._num_pokes
            made, desired = await self._plan(loaded)
            if self.loaded is not loaded or self._num_pokes != num_pokes:
                continue  # what was planned for is not what there is any more
            if self._check_sizes(desired):
                continue
            self.board.note_plan(made, desired, self._overrides_in_force())
            actions = [each for each in made.startable() if not each.is_quiet]
            if not actions:
                break  # what is left waits for memory that is on its way back
            num_rounds += 1
            result = "acted"
            for action in actions:
                if not self._act(action, desired):
                    result = "failed"
        else:
            log.error("reconcile_restless", rounds=_MOST_ROUNDS)
            result = "failed"
        self._means.metrics.reconcile_total.labels(result).inc()
        self._means.metrics.reconcile_seconds.observe(time.monotonic() - begin)

    def _overrides_in_force(self) -> list[Override]:
        made = (self.override_of(spec) for spec in self.loaded.manifest.models)
        return [each for each in made if each is not None]

    def note_unsized(self, spec: ModelSpec) -> None:
        """Size a load that begins while nobody knows what it will hold, once that is known."""
        self._unsized[spec.name] = spec.load_key()

    def _check_sizes(self, desired: tuple[DesiredModel, ...]) -> bool:
        """Promise what was unknown when a load began; True if one has to stop, being too large."""
        registry = self._means.registry
        observed = {each.name: each for each in registry.observed()}
        held = sum(each.held_bytes for each in observed.values())
        for each in desired:
            name, size = each.spec.name, each.forecast_bytes
            if name not in self._unsized or size is None:
                continue
            key, there = self._unsized.pop(name), observed.get(name)
            if there is None or key != each.spec.load_key() or each.wish == "must_not":
                continue
            fits = held + size <= self.budget_bytes
            if not fits:
                log.warning("load_stopped", model=name, needed_bytes=size, held_bytes=held)
            if there.incoming_key == key:
                # A swap to what serves already only drops the copy that was to replace it.
                spec = each.spec if fits else registry.find(name).resident.spec
                registry.swap(name, spec, size if fits else 0)
            elif there.load_key == key and fits:
                registry.load(name, each.spec, size)
            elif there.load_key == key:
                registry.unload(name, "its files are there, and it does not fit")
            if not fits:
                return True
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
            self.note_unsized(wanted.spec)
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
