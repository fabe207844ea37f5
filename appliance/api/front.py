"""Take TLS off connections and pass what they carry on to a private socket."""

import asyncio
import socket
import ssl
from pathlib import Path

_HANDSHAKE_SECONDS = 10.0
_ROOM_SECONDS = 0.01
_GOODBYE_SECONDS = 10.0
"""How long what was sent last may take to reach a client whose answer is over."""


class TlsFront:
    """A listening socket whose connections, TLS taken off, go on to the Unix socket `inner`.

    Event loop only. A handshake takes the `context` of its time, so a new certificate touches
    neither the socket nor any open connection.
    """

    def __init__(self, inner: Path, context: ssl.SSLContext) -> None:
        self.context = context
        self._inner = inner
        self._server: asyncio.Server | None = None
        self._clients: set[_Client] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def start(self, listening: socket.socket, backlog: int) -> None:
        """Take connections on a bound socket, which is closed by `close_socket`."""
        greeter = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        greeter.sni_callback = self._choose
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Client(self._inner, self._clients, self._is_empty),
            sock=listening,
            backlog=backlog,
            ssl=greeter,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=_GOODBYE_SECONDS,
        )

    def close_socket(self) -> None:
        """Take no more connections; open ones go on."""
        if self._server is not None:
            self._server.close()

    async def wait_empty(self) -> None:
        """Wait until no connection is open."""
        await self._is_empty.wait()

    def abort(self) -> None:
        """Cut every connection."""
        for client in tuple(self._clients):
            client.abort()

    def _choose(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        # Called for every handshake, be a name asked for or not.
        connection.context = self.context


class _Pipe(asyncio.Protocol):
    """One end of a connection: what comes in goes out at the `other` end, at its pace."""

    def __init__(self) -> None:
        self.other: _Pipe | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if (other := self._open_other()) is not None:
            other.write(data)

    def pause_writing(self) -> None:
        if (other := self._open_other()) is not None:
            other.pause_reading()

    def resume_writing(self) -> None:
        if (other := self._open_other()) is not None:
            other.resume_reading()

    def _open_other(self) -> asyncio.Transport | None:
        transport = self.other.transport if self.other is not None else None
        return None if transport is None or transport.is_closing() else transport


class _Client(_Pipe):
    """The end that faces the network."""

    def __init__(self, inner: Path, clients: "set[_Client]", is_empty: asyncio.Event) -> None:
        super().__init__()
        self._inner = inner
        self._clients = clients
        self._is_empty = is_empty
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self._clients.add(self)
        self._is_empty.clear()
        self.transport.pause_reading()
        self._connecting = asyncio.create_task(self._connect())

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.discard(self)
        if not self._clients:
            self._is_empty.set()
        if self._connecting is not None:
            self._connecting.cancel()
        # Nobody is left to read an answer, so what is still on its way in does not matter.
        if (other := self._open_other()) is not None:
            other.abort()

    def abort(self) -> None:
        assert self.transport is not None
        self.transport.abort()

    async def _connect(self) -> None:
        assert self.transport is not None
        inner = _Inner(self)
        try:
            await self._reach(inner)
        except OSError:
            self.transport.abort()
            return
        self.other = inner
        self.transport.resume_reading()

    async def _reach(self, inner: "_Inner") -> None:
        loop, path = asyncio.get_running_loop(), str(self._inner)
        while True:
            try:
                await loop.create_unix_connection(lambda: inner, path)
            except BlockingIOError:
                # Linux does not wait for room in the server's backlog.
                await asyncio.sleep(_ROOM_SECONDS)
            else:
                return


class _Inner(_Pipe):
    """The end that faces the server."""

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self.other = client

    def connection_lost(self, exc: Exception | None) -> None:
        if (other := self._open_other()) is not None:
            other.close()
