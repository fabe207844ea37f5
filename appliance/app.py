"""Compose the appliance: build every object, start it, and shut it down in order."""

import asyncio
import contextlib
import faulthandler
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import structlog

from appliance.api.auth import Caller, KeyEntry, KeyRing
from appliance.api.build import build_app
from appliance.api.edge import Edge, Refusal
from appliance.api.gate import Gate
from appliance.api.lifeline import Lifeline
from appliance.api.listener import Listener, TcpAddress
from appliance.api.openai.routes import CHAT_PATH, OpenAiRoutes
from appliance.api.status import StatusRoutes
from appliance.chat.client import TextProcess
from appliance.errors import AddressInUse, Draining, ManifestError, Problem
from appliance.manifest.load import LoadedManifest
from appliance.manifest.spec import AuthKeySpec, Manifest
from appliance.pipeline.pipeline import Pipeline
from appliance.pipeline.sender import Sender
from appliance.registry.registry import Registry
from appliance.registry.resident import Surroundings
from appliance.registry.store import ModelStore
from appliance.state import StateFolder, admin_socket
from appliance.telemetry.log import LogFormat, LogLevel
from appliance.telemetry.metrics import Metrics
from appliance.telemetry.progress import ProgressLog, ProgressSink

_OPEN_FILES = 16384
_LAST_WORDS_SECONDS = 1.0
"""How long a stream may take to send its last event, once it must end."""

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
    on_listening: Callable[[TcpAddress], None] = lambda _: None
    on_progress: ProgressSink = field(default_factory=ProgressLog)


class Appliance:
    """Everything that runs in the gateway process. Built and run inside one event loop."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        manifest = options.loaded.manifest
        self._state = StateFolder(options.state_dir)
        self._manifest: Manifest = manifest
        self._keys = key_ring(options.loaded)
        refuse_open_address(options.host, manifest, self._keys)
        self._metrics = Metrics()
        self._text = TextProcess()
        surroundings = Surroundings(
            store=ModelStore(options.state_dir),
            text=self._text,
            metrics=self._metrics,
            folder=options.loaded.folder,
            on_progress=options.on_progress,
            worker_arguments=(options.log_level, options.log_format),
        )
        self._registry = Registry(manifest.models, manifest.server, surroundings)
        self._pipeline = Pipeline(self._registry, self._text, manifest.server.limits, self._metrics)
        self._gates = [Gate(_never), Gate(_never)]
        self._swap_app()
        self._listeners: list[Listener] = []
        self._stop = asyncio.Event()
        self._cut = asyncio.Event()

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

    async def _start(self) -> None:
        address = TcpAddress(self._options.host, self._options.port).probed()
        public = Listener(self._gates[0], address)
        admin = Listener(self._gates[1], admin_socket(self._options.state_dir))
        self._listeners = [public, admin]
        for listener in self._listeners:
            await listener.start()
        log.info("listening", address=str(address), pid=os.getpid())
        self._options.on_listening(address)
        await self._text.start()
        self._registry.start()

    async def _drain(self) -> None:
        for gate in self._gates:
            gate.is_draining = True
        seconds = self._manifest.server.drain
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
        idle = await asyncio.gather(*(gate.wait_idle(seconds) for gate in self._gates))
        return all(idle)

    async def _close(self) -> None:
        for listener in self._listeners:
            await listener.stop()
        await self._registry.stop()
        await self._text.close()
        self._state.release()
        log.info("stopped")

    def _swap_app(self) -> None:
        server = self._manifest.server
        openai = OpenAiRoutes(self._registry, self._pipeline, server, self._metrics)
        status = StatusRoutes(
            self._registry, self._metrics, self._gates[0], server.endpoints.metrics
        )
        handlers = [*status.handlers(), *openai.handlers()]
        app = Lifeline(build_app(handlers, self._keys, server.limits.max_body))
        for gate, is_trusted in zip(self._gates, (False, True), strict=True):
            gate.app = Edge(app, gate, self._on_refused, is_trusted=is_trusted)

    def _on_refused(self, refusal: Refusal) -> None:
        if refusal.path == CHAT_PATH:
            self._pipeline.note_refused(refusal.request_id, refusal.client_id, refusal.status)

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number.name)


async def _never(scope: object, receive: object, send: object) -> None:
    raise AssertionError("the gate has no app yet")


def key_ring(loaded: LoadedManifest) -> KeyRing:
    """Return the manifest's keys with what each may do."""
    return KeyRing(
        tuple(
            KeyEntry(loaded.key_digests[spec.name], _caller(spec))
            for spec in loaded.manifest.auth_keys
        )
    )


def _caller(spec: AuthKeySpec) -> Caller:
    models = None if spec.models is None else frozenset(spec.models)
    sender = Sender(spec.name, spec.weight, spec.priority)
    return Caller(sender, frozenset(spec.roles), models)


def refuse_open_address(host: str, manifest: Manifest, keys: KeyRing) -> None:
    """Raise ManifestError for an address beyond loopback that everybody could use."""
    if not keys.is_empty or manifest.server.allow_lan_without_keys:
        return
    loopback = host == "localhost"
    with contextlib.suppress(ValueError):
        loopback = ip_address(host).is_loopback
    if not loopback:
        reason = (
            f"refusing to serve {host} without auth_keys: add keys, or set "
            "server.allow_lan_without_keys: true"
        )
        raise ManifestError((Problem("serve", 0, "host", reason),))


def _prepare_process() -> None:
    faulthandler.enable()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
