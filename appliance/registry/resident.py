"""Keep one model in memory: fetch, load, watch, restart with back-off, unload."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog

from appliance.chat.client import TextProcess
from appliance.chat.sampling import read_generation_config
from appliance.engine import wire
from appliance.engine.client import WorkerEngine
from appliance.engine.interface import Engine, EngineEvents
from appliance.errors import ApplianceError, LoadFailed, ModelNotReady, SourceError
from appliance.manifest.source import Source
from appliance.manifest.spec import ModelSpec, resolve_path
from appliance.registry.phase import PHASES, ModelStatus, Phase, WorkProgress
from appliance.telemetry.metrics import Metrics
from appliance.telemetry.progress import ProgressSink

_FIRST_BACKOFF_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 60.0
_STABLE_SECONDS = 60.0

log = structlog.get_logger()


class Store(Protocol):
    """Where model files come from."""

    async def materialise(
        self, source: Source, *, folder: Path, on_progress: Callable[[str, int, int], None]
    ) -> Path:
        """Return the model's folder (or script file), fetching and converting what is missing."""


@dataclass(frozen=True)
class Surroundings:
    """What every resident shares.

    `folder` is what relative paths in the manifest start from; `worker_arguments` go to every
    worker's command line: how it logs.
    """

    store: Store
    text: TextProcess
    metrics: Metrics
    folder: Path
    on_progress: ProgressSink
    worker_arguments: tuple[str, ...] = ()


@dataclass
class Loaded:
    """A model that answers; replaced as a whole, never changed."""

    engine: Engine
    context_tokens: int
    generation_config: dict[str, Any]


class Resident:
    """One model and its worker. Event loop only; its task and its engine's events write it."""

    def __init__(self, spec: ModelSpec, surroundings: Surroundings) -> None:
        self.spec = spec
        self.phase = Phase.ABSENT
        self.loaded: Loaded | None = None
        self.restarts = 0
        self.num_leases = 0
        self.num_running = 0
        self.memory_bytes = 0
        self._reason = "not loaded yet"
        self._since = time.monotonic()
        self._progress: WorkProgress | None = None
        self._around = surroundings
        self._task: asyncio.Task[None] | None = None
        self._retry_at: float | None = None
        self._changed = asyncio.Event()
        self._lost: asyncio.Future[ApplianceError] | None = None
        self._failures = 0
        surroundings.metrics.add_model(spec.name, PHASES)
        surroundings.metrics.set_phase(spec.name, self.phase, PHASES)

    def load(self) -> None:
        """Start bringing the model into memory, and keep it there. Idempotent.

        Does nothing after a failure that only a new manifest can mend.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._keep(), name=f"resident-{self.spec.name}")

    async def unload(self) -> None:
        """End the worker and everything it runs. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        loaded, self.loaded = self.loaded, None
        if loaded is not None:
            await loaded.engine.close()
        self._clear_gauges()
        self._enter(Phase.ABSENT, "unloaded")

    async def ready(self, *, is_patient: bool = False) -> Loaded:
        """Wait until the model answers, loading it if need be; raises ModelNotReady.

        With `is_patient` a back-off that is under way is waited for as well, but not a second one.
        """
        self.load()
        while self.loaded is None:
            if self.phase is Phase.FAILED and is_patient and self._retry_at is not None:
                is_patient = False
            elif self.phase is Phase.FAILED:
                retry = self._seconds_to_retry()
                # The reason may name the operator's files: it is for status and the log.
                raise ModelNotReady(
                    self.spec.name,
                    "its last load failed; `vllm-mlx status` tells why",
                    retry_after_seconds=60.0 if retry is None else retry,
                )
            if self._task is None:
                raise ModelNotReady(self.spec.name, "it was unloaded")
            await self._changed.wait()
        return self.loaded

    def status(self) -> ModelStatus:
        """Return how the model looks now."""
        return ModelStatus(
            name=self.spec.name,
            phase=self.phase,
            reason=self._reason,
            seconds_in_phase=time.monotonic() - self._since,
            is_required=self.spec.residency.preload,
            requests=self.num_leases,
            restarts=self.restarts,
            worker_pid=self.loaded.engine.pid if self.loaded else None,
            context_tokens=self.loaded.context_tokens if self.loaded else None,
            memory_bytes=self.memory_bytes,
            retry_in_seconds=self._seconds_to_retry() if self.phase is Phase.FAILED else None,
            progress=self._progress,
        )

    def _seconds_to_retry(self) -> float | None:
        return None if self._retry_at is None else max(0.0, self._retry_at - time.monotonic())

    async def _keep(self) -> None:
        while True:
            try:
                await self._bring_up()
                await self._serve()
            except (LoadFailed, SourceError) as error:
                reason = error.reason if isinstance(error, LoadFailed) else str(error)
                if not error.retryable:
                    self._fail_for_good(reason)
                    return
                await self._wait_backoff(reason)
            except (ApplianceError, OSError) as error:
                await self._wait_backoff(str(error))
            except Exception as error:  # the guard of this model's own task
                log.exception("model_crashed", model=self.spec.name)
                await self._wait_backoff(f"{type(error).__name__} while loading; see the log")

    async def _bring_up(self) -> None:
        name, source = self.spec.name, self.spec.parsed_source()
        self._enter(Phase.DOWNLOADING, f"getting {source}")
        directory = await self._around.store.materialise(
            source, folder=self._around.folder, on_progress=self._on_progress
        )
        self._enter(Phase.LOADING, "starting its worker")
        generation_config: dict[str, Any] = {}
        if not self.spec.is_scripted():
            generation_config = await asyncio.to_thread(read_generation_config, directory)
            await self._around.text.configure(name, directory, self._template_file())
        self._lost = asyncio.get_running_loop().create_future()
        events = EngineEvents(self._on_step, self._on_load, self._on_lost)
        engine = WorkerEngine(
            name, events, self._around.worker_arguments, self.spec.engine.step_timeout
        )
        settings = engine_settings(self.spec)
        ready = await engine.start(wire.Load(model=name, directory=str(directory), engine=settings))
        self.loaded = Loaded(engine, ready.context_tokens, generation_config)
        self._set_memory(ready.footprint_bytes)
        self._around.metrics.model_loads_total.labels(name).inc()
        self._enter(Phase.READY, "answering")

    async def _serve(self) -> None:
        assert self._lost is not None and self.loaded is not None
        started, engine = time.monotonic(), self.loaded.engine
        error = await self._lost
        self.loaded = None  # it may have been lost before it was put here
        await engine.close()
        log.error("worker_lost", model=self.spec.name, error=str(error), restarts=self.restarts)
        if time.monotonic() - started >= _STABLE_SECONDS:
            self._failures = 0
        if self._failures:
            await self._wait_backoff(str(error))
        else:
            self._failures = 1  # the first restart after a quiet time comes at once

    def _fail_for_good(self, reason: str) -> None:
        log.error("model_load_failed", model=self.spec.name, reason=reason)
        self._retry_at = None
        self._enter(Phase.FAILED, reason)

    async def _wait_backoff(self, reason: str) -> None:
        self._failures += 1
        seconds = min(
            _LONGEST_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * 2 ** min(self._failures - 1, 10)
        )
        log.error("model_failed", model=self.spec.name, reason=reason, retry_seconds=seconds)
        self._retry_at = time.monotonic() + seconds
        self._enter(Phase.FAILED, reason)
        await asyncio.sleep(seconds)

    def _enter(self, phase: Phase, reason: str) -> None:
        if phase is not self.phase:
            log.info("model_phase_changed", model=self.spec.name, phase=phase.value, reason=reason)
        self.phase, self._reason, self._since = phase, reason, time.monotonic()
        self._progress = None
        self._around.metrics.set_phase(self.spec.name, phase.value, PHASES)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _template_file(self) -> Path | None:
        template = self.spec.chat.template
        return None if template == "auto" else resolve_path(self._around.folder, Path(template))

    def _on_progress(self, phase: str, done: int, total: int) -> None:
        self._progress = WorkProgress(phase, done, total)
        self._around.on_progress(self.spec.name, phase, done, total)

    def _on_load(self, progress: wire.Progress) -> None:
        self._progress = WorkProgress(progress.phase, progress.done, progress.total)

    def _on_lost(self, error: ApplianceError) -> None:
        # At once, so that no request is handed to the dead engine before this model's task runs.
        self.loaded = None
        self.restarts += 1
        self._clear_gauges()
        self._around.metrics.worker_restarts_total.labels(self.spec.name).inc()
        self._enter(Phase.LOADING, f"starting again: {error}")
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(error)

    def _on_step(self, step: wire.Step) -> None:
        metrics, name = self._around.metrics, self.spec.name
        for phase, seconds in step.seconds.items():
            metrics.engine_step_seconds.labels(name, phase).observe(seconds)
        if step.preempted:
            metrics.preemptions_total.labels(name).inc(len(step.preempted))
        metrics.batch_size.labels(name).set(step.batch_size)
        self._set_memory(step.memory_bytes)

    def _clear_gauges(self) -> None:
        self._around.metrics.batch_size.labels(self.spec.name).set(0)
        self._set_memory(0)

    def _set_memory(self, num_bytes: int) -> None:
        self.memory_bytes = num_bytes
        self._around.metrics.memory_bytes.labels(self.spec.name, "engine").set(num_bytes)


def engine_settings(spec: ModelSpec) -> wire.EngineSettings:
    """Return what a worker needs to know of the model's `engine` section."""
    return wire.EngineSettings(
        kind="scripted" if spec.is_scripted() else spec.engine.kind,
        max_sequences=spec.engine.num_slots,
        prefill_chunk_tokens=spec.engine.prefill_chunk_tokens,
        max_context_tokens=spec.engine.max_context_tokens,
        trust_remote_code=spec.engine.trust_remote_code,
    )
