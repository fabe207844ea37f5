"""Listen on an address or a Unix socket with an embedded Granian, in the caller's event loop.

Granian reads a certificate once, at its start. A second server on the port could bring another,
but when the first one goes it closes connections whose requests are on their way, and an
unreadable key ends the process. So TLS is taken off in front of it.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server
from litestar.types import ASGIApp

from appliance.api.front import TlsFront
from appliance.api.tls import TlsIdentity, TlsPair
from appliance.errors import AddressInUse

_BACKLOG = 1024
_MAX_CONNECTIONS = 16384
_HEADER_TIMEOUT_MS = 30_000
_STOP_SECONDS = 2.0


@dataclass(frozen=True)
class TcpAddress:
    """A host and a port; port 0 = any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def probed(self) -> "TcpAddress":
        """Return the address with its real port; raises AddressInUse.

        Granian binds with SO_REUSEPORT, so a second server on a port would start silently and
        take half of its connections: ask by binding without it first.
        """
        with socket.socket(self._family(), socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise AddressInUse(f"{self} is in use by another process") from error
                raise AddressInUse(f"{self} cannot be bound: {error.strerror}") from error
            port: int = probe.getsockname()[1]
        return TcpAddress(self.host, port)

    def bound(self) -> socket.socket:
        """Return a socket bound as Granian binds its own, so that both may be there for a while.

        Raises OSError.
        """
        bound = socket.socket(self._family(), socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            bound.bind((self.host, self.port))
        except OSError:
            bound.close()
            raise
        return bound

    def _family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET


class Listener:
    """One listening socket, with TLS or without. Event loop only.

    `start` first, `stop` last, `replace` between. What the app answers over an earlier
    certificate, or over none, goes on to its end.
    """

    def __init__(
        self, app: ASGIApp, address: TcpAddress | Path, tls: TlsPair | None = None
    ) -> None:
        assert tls is None or isinstance(address, TcpAddress)
        self.address = address
        self._app = app
        self._pair = tls
        self._digest: bytes | None = None
        self._door: _Door | None = None
        self._leaving: dict[_Door, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._is_over = asyncio.Event()

    @property
    def url(self) -> str:
        """Where clients reach it; the path of a Unix socket as it is."""
        url = str(self.address)
        return url.replace("http:", "https:", 1) if self._digest is not None else url

    async def start(self) -> None:
        """Return once connections are taken.

        Raises AddressInUse if the address cannot be had, ManifestError if the pair cannot be used.
        """
        identity = None if self._pair is None else await asyncio.to_thread(self._pair.load)
        await self._open(identity)

    async def replace(self, pair: TlsPair | None) -> bool:
        """Serve new connections with what `pair` holds now, None = without TLS; is it another?

        A new certificate costs no connection. From TLS to none and back, idle connections close.
        Raises ManifestError, and nothing has changed, if the pair cannot be used.
        """
        async with self._turn:
            identity = None if pair is None else await asyncio.to_thread(pair.load)
            digest = None if identity is None else identity.digest
            if digest == self._digest or self._is_over.is_set():
                return False
            old = self._door
            if old is not None and old.front is not None and identity is not None:
                old.front.context, self._digest = identity.context, digest
                return True
            await self._open(identity)
            if old is not None:
                self._leave(old)
            return True

    async def ended(self) -> None:
        """Wait until the socket is closed, by `stop` or by a failure."""
        await self._is_over.wait()

    async def stop(self) -> None:
        """Close the socket and idle connections; gives up on a half-sent request after 2 s."""
        self._is_over.set()
        async with self._turn:
            if self._door is not None:
                self._leave(self._door)
                self._door = None
        if self._leaving:
            await asyncio.wait(self._leaving.values(), timeout=_STOP_SECONDS)
        for door, task in tuple(self._leaving.items()):
            task.cancel()
            door.abort()
        if isinstance(self.address, Path):
            with contextlib.suppress(OSError):
                self.address.unlink(missing_ok=True)

    async def _open(self, identity: TlsIdentity | None) -> None:
        door = _Door(self._app, self.address, identity)
        await door.start(self._on_ended)
        self._door = door
        self._digest = None if identity is None else identity.digest

    def _leave(self, door: "_Door") -> None:
        self._leaving[door] = task = asyncio.create_task(door.close())
        task.add_done_callback(lambda _: self._leaving.pop(door))

    def _on_ended(self, door: "_Door") -> None:
        if door is self._door:
            self._is_over.set()


class _Door:
    """One Granian server; with TLS it listens on a private socket behind a front."""

    def __init__(
        self, app: ASGIApp, address: TcpAddress | Path, identity: TlsIdentity | None
    ) -> None:
        self.front: TlsFront | None = None
        self._address = address
        self._inner: TcpAddress | Path = address
        self._folder: TemporaryDirectory[str] | None = None
        if identity is not None:
            self._folder = TemporaryDirectory(prefix="vllm-mlx-")  # its mode is 0700
            self._inner = Path(self._folder.name) / "http.sock"
            self.front = TlsFront(self._inner, identity.context)
        self._server = _server(app, self._inner)
        self._task: asyncio.Task[None] | None = None

    async def start(self, on_ended: Callable[["_Door"], None]) -> None:
        """Return once connections are taken; `on_ended` is called when the server has ended."""
        started = asyncio.Event()
        self._server.on_startup(started.set)
        if isinstance(self._inner, Path):
            self._inner.unlink(missing_ok=True)
        self._task = asyncio.create_task(self._server.serve(), name=f"listener-{self._address}")
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            self.abort()
            raise AddressInUse(f"{self._address} cannot be listened on: {self._task.exception()}")
        self._task.add_done_callback(lambda _: on_ended(self))
        if isinstance(self._inner, Path):
            self._inner.chmod(0o600)
        if self.front is not None:
            await self._start_front(self.front)

    async def close(self) -> None:
        """Take no more connections, close idle ones, and wait for what runs to its end."""
        if self.front is not None:
            self.front.close_socket()
        self._server.stop()  # type: ignore[no-untyped-call]
        if self._task is not None:
            await asyncio.wait({self._task})
        if self.front is not None:
            await self.front.wait_empty()
        self.abort()

    def abort(self) -> None:
        """Cut what a front still has open, and leave no file behind."""
        if self.front is not None:
            self.front.abort()
        if self._folder is not None:
            self._folder.cleanup()

    async def _start_front(self, front: TlsFront) -> None:
        assert isinstance(self._address, TcpAddress)
        try:
            await front.start(self._address.bound(), _BACKLOG)
        except OSError as error:
            await self.close()
            reason = f"{self._address} cannot be listened on: {error.strerror}"
            raise AddressInUse(reason) from error


def _server(app: ASGIApp, address: TcpAddress | Path) -> Server:
    where = (
        {"uds": address}
        if isinstance(address, Path)
        else {"address": address.host, "port": address.port}
    )
    return Server(
        app,
        **where,
        interface=Interfaces.ASGINL,
        http=HTTPModes.auto,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_MAX_CONNECTIONS,
        http1_settings=HTTP1Settings(header_read_timeout=_HEADER_TIMEOUT_MS),
        log_enabled=False,
    )
