"""Listen on an address or a Unix socket with an embedded Granian, in the caller's event loop."""

import asyncio
import contextlib
import errno
import socket
from dataclasses import dataclass
from pathlib import Path

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server
from litestar.types import ASGIApp

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
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise AddressInUse(f"{self} is in use by another process") from error
                raise AddressInUse(f"{self} cannot be bound: {error.strerror}") from error
            port: int = probe.getsockname()[1]
        return TcpAddress(self.host, port)


class Listener:
    """One listening socket. `start`, then `stop`; both on the event loop."""

    def __init__(self, app: ASGIApp, address: TcpAddress | Path) -> None:
        self.address = address
        self._started = asyncio.Event()
        self._server = _server(app, address)
        self._server.on_startup(self._started.set)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return once connections are taken; raises AddressInUse if the address cannot be had."""
        if isinstance(self.address, Path):
            self.address.unlink(missing_ok=True)
        self._task = asyncio.create_task(self._server.serve(), name=f"listener-{self.address}")
        started = asyncio.create_task(self._started.wait())
        await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._task.done():
            raise AddressInUse(f"{self.address} cannot be listened on: {self._task.exception()}")
        if isinstance(self.address, Path):
            self.address.chmod(0o600)

    async def ended(self) -> None:
        """Wait until the socket is closed, by `stop` or by a failure."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def stop(self) -> None:
        """Close the socket and idle connections; gives up on a half-sent request after 2 s."""
        self._server.stop()  # type: ignore[no-untyped-call]
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_STOP_SECONDS)
        if isinstance(self.address, Path):
            with contextlib.suppress(OSError):
                self.address.unlink(missing_ok=True)


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
