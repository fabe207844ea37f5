"""Compose the appliance: build every object, start it, and shut it down in order."""

import asyncio
import contextlib
import faulthandler
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from litestar.types import ASGIApp

from appliance.api.access import key_ring, refuse_open_address
from appliance.api.admin.control import Control
from appliance.api.admin.manifest import ManifestRoutes
from appliance.api.admin.operation import OperationRoutes
from appliance.api.build import build_app
from appliance.api.dialect import inference_handlers
from appliance.api.edge import Edge, Refusal
from appliance.api.gate import Gate
from appliance.api.inference import CHAT_APIS, Inference
from appliance.api.lifeline import Lifeline
from appliance.api.listener import Listener, TcpAddress
from appliance.api.openai.responses.background import Background
from appliance.api.openai.responses.store import ResponseStore
from appliance.api.openapi import OpenApiRoutes
from appliance.api.status import StatusRoutes
from appliance.api.tls import TlsKeeper, manifest_pair, refuse_broken_tls
from appliance.chat.client import TextProcess
from appliance.errors import AddressInUse, Draining
from appliance.manifest.load import LoadedManifest
from appliance.manifest.spec import ModelSpec
from appliance.pipeline.pipeline import Pipeline
from appliance.reconcile.acceptance import Acceptance
from appliance.reconcile.desired import Forecasts
from appliance.reconcile.reconciler import Means, Reconciler
from appliance.reconcile.records import Records
from appliance.reconcile.room import Room
from appliance.reconcile.source import ManifestFile
from appliance.reconcile.watcher import Watcher
from appliance.registry.forecast import forecast
from appliance.registry.machine import machine_bytes
from appliance.registry.registry import Registry
from appliance.registry.store import ModelStore
from appliance.registry.surroundings import Surroundings, Wish
from appliance.state import StateFolder, admin_socket
from appliance.telemetry.log import LogFormat, LogLevel, set_log_level
from appliance.telemetry.metrics import Metrics
from appliance.telemetry.progress import ProgressLog, ProgressSink
from appliance.telemetry.tail import LogTail

_OPEN_FILES = 16384
_LAST_WORDS_SECONDS = 1.0
"""How long a stream may take to send its last event, once it must end."""
_HISTORY = "history.sqlite"
_SWITCH_SECONDS = 0.0005
_AGAIN_SECONDS = 5.0
_PROGRESS_SECONDS = 0.25

log = structlog.get_logger()


@dataclass(frozen=True)
class ServeOptions:
    """What needs a restart: addresses and folders. Everything else is in the manifest."""

    loaded: LoadedManifest
    state_dir: Path
    host: str = "127.0.0.1"
    port: int = 8000
    log_level: LogLevel = "info"
    log_format: LogFormat = "auto"
    tail: LogTail = field(default_factory=LogTail)
    on_listening: Callable[[str], None] = lambda _: None
    on_progress: ProgressSink = field(default_factory=ProgressLog)


class Appliance:
    """Everything that runs in the gateway process. Built and run inside one event loop."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._started = time.monotonic()
        self._progressed = self._started
        self._refuse(options.loaded)
        self._state = StateFolder(options.state_dir)
        self._metrics = Metrics(tuple(CHAT_APIS.values()))
        self._text = TextProcess()
        self._store = ModelStore(options.state_dir)
        self._records = Records(options.state_dir / _HISTORY)
        self._background = Background(ResponseStore(options.state_dir))
        self._registry = self._make_registry(options)
        limits = options.loaded.manifest.server.limits
        self._pipeline = Pipeline(self._registry, self._text, limits, self._metrics)
        self._reconciler = self._make_reconciler(options)
        self._watcher = Watcher(self._reconciler.file.path, self._reconciler.poke_file)
        self._gates = [Gate(_never), Gate(_never)]
        self._listeners: list[Listener] = []
        self._keeper: TlsKeeper | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()
        self._cut = asyncio.Event()
        self._take_force(options.loaded, self._build(options.loaded))

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain and return. A second signal cuts the drain.

        Raises AddressInUse, also when a listener ends by itself later.
        """
        _prepare_process()
        self._listen_to_signals()
        try:
            await self._start()
            stop = asyncio.create_task(self._stop.wait())
            ended = [asyncio.create_task(each.ended()) for each in self._listeners]
            await asyncio.wait([stop, *ended], return_when=asyncio.FIRST_COMPLETED)
            if not stop.done():
                raise AddressInUse("a listener ended by itself")
            await self._drain()
        finally:
            await self._close()

    def stop(self, signal_name: str = "request") -> None:
        """Begin to shut down; a second call does not wait for running streams any more."""
        log.info("shutdown_requested", signal=signal_name)
        if self._stop.is_set():
            self._cut.set()
        self._stop.set()

    def _make_registry(self, options: ServeOptions) -> Registry:
        surroundings = Surroundings(
            store=self._store,
            text=self._text,
            metrics=self._metrics,
            folder=options.loaded.folder,
            on_progress=self._on_progress,
            worker_arguments=(options.log_level, options.log_format),
            verify=lambda *copy: Acceptance(self._pipeline).verify(*copy),
            admit=lambda name: Room(self._registry, self._reconciler).admit(name),
            wish_of=self._wish_of,
        )
        registry = Registry(surroundings)
        # Names are known from the first request on; loads wait until the machine is measured.
        registry.serve(options.loaded.manifest.models, options.loaded.manifest.server)
        return registry

    def _make_reconciler(self, options: ServeOptions) -> Reconciler:
        file = ManifestFile(options.loaded.file, options.state_dir, self._refuse)
        means = Means(
            registry=self._registry,
            records=self._records,
            forecasts=Forecasts(self._forecast),
            metrics=self._metrics,
            prepare=self._prepare,
        )
        reconciler = Reconciler(file, options.loaded, means)
        self._registry.on_change = reconciler.poke
        return reconciler

    def _wish_of(self, spec: ModelSpec) -> Wish:
        return self._reconciler.wish_of(spec)

    def _on_progress(self, model: str, phase: str, done: int, total: int) -> None:
        self._options.on_progress(model, phase, done, total)
        now = time.monotonic()
        if now - self._progressed >= _PROGRESS_SECONDS or done == total:
            self._progressed = now
            self._reconciler.board.note_change()

    async def _forecast(self, spec: ModelSpec) -> int | None:
        return await forecast(spec, self._options.loaded.folder, self._store)

    async def _start(self) -> None:
        await self._records.open()
        await self._background.store.open()
        # What is here stays: looking through all of it for garbage would stall streams for 0.1 s.
        gc.freeze()
        address = TcpAddress(self._options.host, self._options.port).probed()
        pair = manifest_pair(self._options.loaded)
        public = Listener(self._gates[0], address, pair)
        self._keeper = TlsKeeper(public, pair)
        admin = Listener(self._gates[1], admin_socket(self._options.state_dir))
        self._listeners = [public, admin]
        for listener in self._listeners:
            await listener.start()
        log.info("listening", address=public.url, pid=os.getpid())
        self._options.on_listening(public.url)
        await self._text.start()
        await self._reconciler.start(await machine_bytes())
        self._tasks = [
            asyncio.create_task(_kept_up(name, run), name=name)
            for name, run in (
                ("reconciler", self._reconciler.run),
                ("watcher", self._watcher.run),
                ("certificates", self._keeper.run),
            )
        ]

    async def _drain(self) -> None:
        for gate in self._gates:
            gate.is_draining = True
        seconds = self._reconciler.loaded.manifest.server.drain
        idle = asyncio.create_task(self._wait_idle(seconds))
        cut = asyncio.create_task(self._cut.wait())
        await asyncio.wait([idle, cut], return_when=asyncio.FIRST_COMPLETED)
        if idle.done() and idle.result():
            return
        log.warning("drain_cut", limit_seconds=seconds, by_signal=self._cut.is_set())
        self._pipeline.abort_all(Draining())
        if not await self._wait_idle(_LAST_WORDS_SECONDS):
            for gate in self._gates:
                gate.cancel_all()
            await self._wait_idle(_LAST_WORDS_SECONDS)

    async def _wait_idle(self, seconds: float) -> bool:
        idle = await asyncio.gather(
            *(gate.wait_idle(seconds) for gate in self._gates),
            self._background.wait_idle(seconds),
        )
        return all(idle)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._listeners:
            await listener.stop()
        await self._background.close()
        await self._registry.stop()
        await self._text.close()
        await self._records.close()
        self._state.release()
        log.info("stopped")

    async def _prepare(self, loaded: LoadedManifest) -> Callable[[], None]:
        """Build a revision's app in a thread: it takes some 50 ms, and streams must not wait."""
        app = await asyncio.to_thread(self._build, loaded)
        return partial(self._take_force, loaded, app)

    def _build(self, loaded: LoadedManifest) -> ASGIApp:
        server = loaded.manifest.server
        inference = Inference(self._registry, self._pipeline, server, self._metrics)
        status = StatusRoutes(
            self._registry,
            self._metrics,
            self._gates[0],
            server.endpoints.metrics,
            self._started,
        )
        control = self._control()
        handlers = [
            *status.handlers(),
            *inference_handlers(inference, self._background),
            *ManifestRoutes(control, server.limits).handlers(),
            *OperationRoutes(control, server.limits).handlers(),
        ]
        handlers += OpenApiRoutes(handlers).handlers()
        return Lifeline(build_app(handlers, key_ring(loaded), server))

    def _take_force(self, loaded: LoadedManifest, app: ASGIApp) -> None:
        """Put a revision's server section in force, between two requests."""
        server = loaded.manifest.server
        set_log_level(server.log_level or self._options.log_level)
        self._pipeline.set_limits(server.limits)
        self._background.store.use(server.responses)
        for gate, is_trusted in zip(self._gates, (False, True), strict=True):
            gate.app = Edge(app, gate, self._on_refused, is_trusted=is_trusted)
        if self._keeper is not None:
            self._keeper.use(manifest_pair(loaded))

    def _control(self) -> Control:
        return Control(
            reconciler=self._reconciler,
            registry=self._registry,
            pipeline=self._pipeline,
            records=self._records,
            metrics=self._metrics,
            tail=self._options.tail,
            gate=self._gates[0],
            set_log_level=set_log_level,
            stop=self.stop,
        )

    def _refuse(self, loaded: LoadedManifest) -> None:
        """Raise ManifestError for what this appliance cannot do. Blocking."""
        refuse_open_address(self._options.host, loaded.manifest, key_ring(loaded))
        refuse_broken_tls(loaded)

    def _on_refused(self, refusal: Refusal) -> None:
        if (api := CHAT_APIS.get(refusal.path)) is not None:
            self._pipeline.note_refused(api, refusal.request_id, refusal.client_id, refusal.status)

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number.name)
        loop.add_signal_handler(signal.SIGHUP, self._reconciler.poke_file)


async def _kept_up(name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run what must never end, again if it does."""
    while True:
        try:
            await run()
        except Exception:  # the outer loop of the gateway's own tasks
            log.exception("task_failed", task=name, retry_seconds=_AGAIN_SECONDS)
        await asyncio.sleep(_AGAIN_SECONDS)


async def _never(scope: object, receive: object, send: object) -> None:
    raise AssertionError("the gate has no app yet")


def _prepare_process() -> None:
    faulthandler.enable()
    # A manifest is read in a thread: streams take the interpreter back from it at once.
    sys.setswitchinterval(_SWITCH_SECONDS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
