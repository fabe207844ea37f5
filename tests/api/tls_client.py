"""Make certificates, serve a small app with them, and speak to it byte by byte."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from litestar.types import Receive, Scope, Send

from appliance.api.listener import Listener, TcpAddress
from appliance.api.tls import TlsPair

PATIENCE_SECONDS = 20.0


def run_openssl(folder: Path, command: str) -> None:
    subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)


def make_pair(folder: Path, name: str, days: int = 2) -> TlsPair:
    """Return a fresh self-signed pair; negative `days`: it has expired."""
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    run_openssl(folder, f"req -new {key} -keyout {name}.key -subj /CN=localhost -out {name}.csr")
    signed = f"-signkey {name}.key -days {days} -out {name}.crt"
    run_openssl(folder, f"x509 -req -in {name}.csr {signed}")
    return TlsPair(folder / f"{name}.crt", folder / f"{name}.key")


def certificate(pair: TlsPair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.cert.read_text())


class Answers:
    """The app: `/stream` says one, and two once `go` is set; all else is answered at once."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.is_gone = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Any = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        if scope["path"] == "/stream":
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            await self.go.wait()
        if scope["path"] == "/wait":
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            self.is_gone.set()
        await send({"type": "http.response.body", "body": b"two", "more_body": True})
        await send({"type": "http.response.body", "body": b"end", "more_body": False})


def trusting_context(*protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(protocols)
    return context


class Connection:
    """One connection to a listener, open until the block ends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @property
    def certificate(self) -> bytes:
        found: bytes = self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found

    async def ask(self, path: str = "/") -> None:
        self.writer.write(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        await self.until(b"\r\n\r\n")

    async def until(self, end: bytes) -> bytes:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.reader.readuntil(end)

    async def answer(self) -> bytes:
        """Return the rest of a whole answer, chunk lengths and all."""
        return await self.until(b"\r\n0\r\n\r\n")


@asynccontextmanager
async def connected(
    listener: Listener, context: ssl.SSLContext | None = None, *, is_plain: bool = False
) -> AsyncIterator[Connection]:
    address = listener.address
    assert isinstance(address, TcpAddress)
    chosen = None if is_plain else context or trusting_context("http/1.1")
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=chosen)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def listening(pair: TlsPair | None, app: Answers | None = None) -> AsyncIterator[Listener]:
    listener = Listener(app or Answers(), TcpAddress("127.0.0.1", 0).probed(), pair)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop()


async def served(listener: Listener) -> bytes:
    """Return the certificate that a new connection sees."""
    async with connected(listener) as connection:
        return connection.certificate


class Load:
    """Clients that ask without pause, each on a connection of its own or on one for good."""

    def __init__(self, listener: Listener, num_clients: int) -> None:
        self._listener = listener
        self._answered = asyncio.Condition()
        self._num_answered = 0
        self._is_over = False
        self._tasks = [asyncio.create_task(self._run(n % 2 == 0)) for n in range(num_clients)]

    async def more(self, num_answers: int) -> None:
        """Wait for so many answers more."""
        wanted = self._num_answered + num_answers
        async with asyncio.timeout(PATIENCE_SECONDS), self._answered:
            await self._answered.wait_for(lambda: self._num_answered >= wanted)

    async def finish(self) -> Mapping[str, int]:
        """Return how often what went wrong."""
        self._is_over = True
        failures: dict[str, int] = {}
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                failures[repr(result)] = failures.get(repr(result), 0) + 1
        return failures

    async def _run(self, is_keeping: bool) -> None:
        while not self._is_over:
            async with connected(self._listener) as connection:
                await self._ask(connection)
                while is_keeping and not self._is_over:
                    await self._ask(connection)

    async def _ask(self, connection: Connection) -> None:
        await connection.ask()
        await connection.answer()
        async with self._answered:
            self._num_answered += 1
            self._answered.notify_all()
