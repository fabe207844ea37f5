"""Keep one copy of a model in memory: fetch, load, prove, watch, restart with back-off, end."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from appliance.chat.sampling import read_generation_config
from appliance.engine import wire
from appliance.engine.client import WorkerEngine
from appliance.engine.interface import Engine, EngineEvents
from appliance.errors import ApplianceError, LoadFailed, ModelNotReady, SourceError
from appliance.manifest.spec import ModelSpec
from appliance.registry.phase import Phase, WorkProgress
from appliance.registry.surroundings import Surroundings
from appliance.registry.wording import Wording

_FIRST_BACKOFF_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 60.0
_STABLE_SECONDS = 60.0
_MOST_TRIES = 3

log = structlog.get_logger()


@dataclass
class Loaded:
    """A model that answers; replaced as a whole, never changed."""

    engine: Engine
    context_tokens: int
    generation_config: dict[str, Any]


@dataclass(frozen=True)
class Overseer:
    """Who is told of a resident: `on_change` of each new phase, at once.

    `verify` asks it its golden prompts before it is ready, and returns what failed.
    """

    on_change: Callable[[], None]
    verify: Callable[["Resident"], Coroutine[None, None, str | None]]


class Resident:
    """One copy of a model, from its load to its end; another load is another copy's.

    Its worker may be replaced meanwhile, its `load_key` never changes once it has begun. Event
    loop only; its task and its engine's events write it.
    """

    def __init__(self, spec: ModelSpec, surroundings: Surroundings, overseer: Overseer) -> None:
        self.spec = spec
        self.key = spec.load_key()
        self.phase = Phase.ABSENT
        self.reason = "not loaded yet"
        self.since = time.monotonic()
        self.progress: WorkProgress | None = None
        self.loaded: Loaded | None = None
        self.failure: str | None = None  # set once it has failed for good
        self.last_error: str | None = None
        self.has_failed_verify = False
        self.has_answered = False
        self.is_replacement = False
        self.has_files = False
        self.is_leaving = False
        self.is_over = False
        self.restarts = 0
        self.num_leases = 0
        self.batch_size = 0
        self.memory_bytes = 0
        self.promised_bytes = 0
        self.wording = Wording(spec.name, surroundings.text, surroundings.folder)
        self._around = surroundings
        self._overseer = overseer
        self._task: asyncio.Task[None] | None = None
        self._engine: WorkerEngine | None = None
        self._candidate: Loaded | None = None
        self._lost: asyncio.Future[ApplianceError] | None = None
        self._gate = asyncio.Event()
        self._free = asyncio.Event()
        self._changed = asyncio.Event()
        self._footprint_bytes = 0
        self._retry_at: float | None = None
        self._failures = 0
        self._free.set()

    @property
    def has_begun(self) -> bool:
        """Whether it was ever told to load."""
        return self._task is not None

    @property
    def is_alive(self) -> bool:
        """Whether it is in memory or on its way there, and not told to leave."""
        return self.has_begun and self.failure is None and not self.is_leaving

    @property
    def is_held(self) -> bool:
        """Whether its worker may not start yet."""
        return self.has_begun and not self._gate.is_set()

    @property
    def held_bytes(self) -> int:
        """What it may hold: what was promised, or more if its worker said so; 0 once it is gone."""
        if not self.has_begun or self.failure is not None or self.is_over:
            return 0
        return max(self.promised_bytes, self._footprint_bytes)

    @property
    def retry_in_seconds(self) -> float | None:
        """How long until it tries again after a failure; None if it will not, or need not."""
        if self.phase is not Phase.FAILED or self._retry_at is None:
            return None
        return max(0.0, self._retry_at - time.monotonic())

    def adopt(self, spec: ModelSpec, key: str) -> None:
        """Take another policy. Before the load begins, another load, too: `key` is its key."""
        self.spec, self.key = spec, key
        if self._engine is not None:
            self._engine.set_step_timeout(spec.engine.step_timeout)

    def load(self, promised_bytes: int = 0, *, is_held: bool = False) -> None:
        """Start bringing the model into memory, and keep it there. Idempotent.

        With `is_held` it gets its files, and starts no worker before `open_gate`. Does nothing
        after a failure that only a new manifest can mend.
        """
        self.promised_bytes = max(self.promised_bytes, promised_bytes)
        if not is_held:
            self.open_gate()
        if self._task is None and not self.is_leaving:
            self._task = asyncio.create_task(self._keep(), name=f"resident-{self.spec.name}")

    def open_gate(self) -> None:
        """Let it start its worker. Idempotent."""
        self._gate.set()

    def acquire(self) -> None:
        """Count one more lease."""
        self.num_leases += 1
        self._free.clear()

    def release(self) -> None:
        """Count one lease less."""
        self.num_leases -= 1
        if self.num_leases == 0:
            self._free.set()

    def leave(self, reason: str) -> None:
        """Begin nothing new: who waits in `ready` gets ModelNotReady, unless it is loaded."""
        self.is_leaving = True
        self._enter(Phase.DRAINING, reason)

    async def drain(self, seconds: float) -> None:
        """Wait until nobody uses it any more, at most `seconds`, and unload it."""
        if self.loaded is not None:
            try:
                async with asyncio.timeout(seconds):
                    await self._free.wait()
            except TimeoutError:
                log.warning("model_drain_cut", model=self.spec.name, requests=self.num_leases)
        await self.unload()

    async def unload(self) -> None:
        """End the worker and everything it runs, at once and for good. Idempotent."""
        self.is_leaving = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self.loaded = self._candidate = None
        await self._close_engine()
        await self.wording.forget()
        self.is_over = True
        self._enter(Phase.ABSENT, "unloaded")

    async def ready(self, *, is_patient: bool = False, is_test: bool = False) -> Loaded:
        """Wait until the model answers; raises ModelNotReady, at once if it was not told to load.

        With `is_patient` a back-off that is under way is waited for as well, but not a second one.
        With `is_test` a model that is yet to be verified is enough.
        """
        while True:
            loaded = self.loaded or (self._candidate if is_test else None)
            if loaded is not None:
                return loaded
            if self.is_leaving or not self.has_begun:
                raise ModelNotReady(self.spec.name, "it was unloaded")
            if self.phase is Phase.FAILED and is_patient and self._retry_at is not None:
                is_patient = False
            elif self.phase is Phase.FAILED:
                retry = self.retry_in_seconds
                # The reason may name the operator's files: it is for status and the log.
                raise ModelNotReady(
                    self.spec.name,
                    "its last load failed; `vllm-mlx status` tells why",
                    retry_after_seconds=60.0 if retry is None else retry,
                )
            await self._changed.wait()

    async def _keep(self) -> None:
        while not self.is_leaving:
            try:
                await self._bring_up()
                await self._serve()
            except (LoadFailed, SourceError) as error:
                reason = error.reason if isinstance(error, LoadFailed) else str(error)
                if not error.retryable:
                    await self._fail_for_good(reason)
                    return
            except (ApplianceError, OSError) as error:
                reason = str(error)
            except Exception as error:  # the guard of this model's own task
                log.exception("model_crashed", model=self.spec.name)
                reason = f"{type(error).__name__} while loading; see the log"
            else:
                continue
            if self._must_give_up():
                await self._fail_for_good(reason)
                return
            await self._wait_backoff(reason)

    def _must_give_up(self) -> bool:
        """Say whether it was tried often enough, while the copy that it is to replace may go on."""
        is_tried = self.has_files and self._failures + 1 >= _MOST_TRIES
        return self.is_replacement and not self.has_answered and is_tried

    async def _bring_up(self) -> None:
        name, source = self.spec.name, self.spec.parsed_source()
        self._enter(Phase.DOWNLOADING, "getting its files")
        directory = await self._around.store.materialise(
            source, folder=self._around.folder, on_progress=self._on_progress
        )
        self.has_files = True
        if self.is_held:
            self._enter(Phase.LOADING, "waiting for the copy before it to leave")
            await self._gate.wait()
        self._enter(Phase.LOADING, "starting its worker")
        generation_config: dict[str, Any] = {}
        if not self.spec.is_scripted():
            generation_config = await asyncio.to_thread(read_generation_config, directory)
            await self.wording.begin(directory, self.spec.chat.template)
        ready = await self._start_worker(str(directory))
        assert self._engine is not None
        loaded = Loaded(self._engine, ready.context_tokens, generation_config)
        self._footprint_bytes = self.memory_bytes = ready.footprint_bytes
        await self._prove(loaded)
        self.loaded, self.has_answered = loaded, True
        self._around.metrics.model_loads_total.labels(name).inc()
        self._enter(Phase.READY, "answering")

    async def _start_worker(self, directory: str) -> wire.Ready:
        name, engine = self.spec.name, self.spec.engine
        self._lost = asyncio.get_running_loop().create_future()
        events = EngineEvents(self._on_step, self._on_load, self._on_lost)
        self._engine = WorkerEngine(
            name, events, self._around.worker_arguments, engine.step_timeout
        )
        settings = engine_settings(self.spec)
        return await self._engine.start(wire.Load(model=name, directory=directory, engine=settings))

    async def _prove(self, loaded: Loaded) -> None:
        """Ask the golden prompts, once in this copy's life; raises LoadFailed."""
        assert self._lost is not None
        if self.has_answered or not self.spec.verify.prompts:
            return
        self._candidate = loaded
        self._enter(Phase.VERIFYING, "answering its verify prompts")
        asking = asyncio.create_task(self._overseer.verify(self))
        asking.add_done_callback(lambda each: each.cancelled() or each.exception())
        try:
            either: list[asyncio.Future[Any]] = [asking, self._lost]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._candidate = None
            asking.cancel()
            await asyncio.wait([asking])
        if self._lost.done():
            raise LoadFailed(
                self.spec.name, f"while verified: {self._lost.result()}", retryable=True
            )
        if (flaw := asking.result()) is not None:
            self.has_failed_verify = True
            raise LoadFailed(self.spec.name, flaw, retryable=False)

    async def _serve(self) -> None:
        assert self._lost is not None
        started = time.monotonic()
        error = await self._lost
        self.loaded = None  # it may have been lost before it was put here
        await self._close_engine()
        log.error("worker_lost", model=self.spec.name, error=str(error), restarts=self.restarts)
        if time.monotonic() - started >= _STABLE_SECONDS:
            self._failures = 0
        if self._failures and not self.is_leaving:
            await self._wait_backoff(str(error))
        else:
            self._failures = 1  # the first restart after a quiet time comes at once

    async def _fail_for_good(self, reason: str) -> None:
        await self._close_engine()
        log.error("model_load_failed", model=self.spec.name, reason=reason)
        self._retry_at, self.failure, self.last_error = None, reason, reason
        self._enter(Phase.FAILED, reason)

    async def _wait_backoff(self, reason: str) -> None:
        await self._close_engine()
        self._failures += 1
        seconds = min(
            _LONGEST_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * 2 ** min(self._failures - 1, 10)
        )
        log.error("model_failed", model=self.spec.name, reason=reason, retry_seconds=seconds)
        self._retry_at, self.last_error = time.monotonic() + seconds, reason
        self._enter(Phase.FAILED, reason)
        await asyncio.sleep(seconds)

    async def _close_engine(self) -> None:
        if self._engine is not None:
            await self._engine.close()
            self._engine = None
        self.memory_bytes = self.batch_size = 0

    def _enter(self, phase: Phase, reason: str) -> None:
        if phase is not self.phase:
            log.info("model_phase_changed", model=self.spec.name, phase=phase.value, reason=reason)
        self.phase, self.reason, self.since = phase, reason, time.monotonic()
        self.progress = None
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._overseer.on_change()

    def _on_progress(self, phase: str, done: int, total: int) -> None:
        self.progress = WorkProgress(phase, done, total)
        self._around.on_progress(self.spec.name, phase, done, total)

    def _on_load(self, progress: wire.Progress) -> None:
        self._on_progress(progress.phase, progress.done, progress.total)

    def _on_lost(self, error: ApplianceError) -> None:
        # At once, so that no request is handed to the dead engine before this model's task runs.
        self.loaded = None
        self.last_error = str(error)
        self.restarts += 1
        self.memory_bytes = self.batch_size = 0
        self._around.metrics.worker_restarts_total.labels(self.spec.name).inc()
        phase = Phase.DRAINING if self.is_leaving else Phase.LOADING
        self._enter(phase, f"starting again: {error}")
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(error)

    def _on_step(self, step: wire.Step) -> None:
        metrics, name = self._around.metrics, self.spec.name
        for phase, seconds in step.seconds.items():
            metrics.engine_step_seconds.labels(name, phase).observe(seconds)
        if step.preempted:
            metrics.preemptions_total.labels(name).inc(len(step.preempted))
        self.batch_size, self.memory_bytes = step.batch_size, step.memory_bytes


def engine_settings(spec: ModelSpec) -> wire.EngineSettings:
    """Return what a worker needs to know of the model's `engine` section."""
    return wire.EngineSettings(
        kind="scripted" if spec.is_scripted() else spec.engine.kind,
        max_sequences=spec.engine.num_slots,
        prefill_chunk_tokens=spec.engine.prefill_chunk_tokens,
        max_context_tokens=spec.engine.max_context_tokens,
        trust_remote_code=spec.engine.trust_remote_code,
    )
