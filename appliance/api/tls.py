"""Read a certificate and its key, say what is wrong with them, and follow their files."""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import structlog

from appliance.errors import AddressInUse, ManifestError, Problem
from appliance.manifest.load import LoadedManifest
from appliance.manifest.spec.text import resolve_path
from appliance.manifest.tree import read_tree
from appliance.reconcile.watcher import Watcher

_END = "-----END CERTIFICATE-----"
_ALPN = ["h2", "http/1.1"]
_NOT_YET_VALID, _HAS_EXPIRED = 9, 10  # X509_V_ERR_… of OpenSSL
_FOREIGN = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
_WEAK = {"EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"}
_PATIENCE_SECONDS = 0.2
"""How long after one file's change the other's may follow."""

log = structlog.get_logger()


@dataclass(frozen=True)
class TlsIdentity:
    """What a pair of files held when they were read; `digest` is over both."""

    context: ssl.SSLContext = field(compare=False, repr=False)
    digest: bytes


@dataclass(frozen=True)
class TlsPair:
    """Where a certificate with those that signed it and its private key lie, as PEM."""

    cert: Path
    key: Path

    def load(self) -> TlsIdentity:
        """Return what the files hold; raises ManifestError, with the file at fault. Blocks.

        The pair has then been used once, in a handshake within memory.
        """
        cert, key = _read(self.cert), _read(self.key)
        if b"PRIVATE KEY-----" not in key:
            raise _flaw(self.key, "holds no private key as PEM")
        if b"ENCRYPTED" in key:
            raise _flaw(self.key, "is encrypted; a key without a passphrase is needed")
        client = _client(self.cert, cert)
        context = self._server()
        try:
            _shake_hands(context, client)
        except ssl.SSLCertVerificationError as error:
            # Whom to trust is each client's own affair; the calendar is the same for all.
            if error.verify_code in (_NOT_YET_VALID, _HAS_EXPIRED):
                raise _flaw(self.cert, error.verify_message) from error
        except ssl.SSLError as error:
            raise _flaw(self.cert, f"cannot be used: {_reason(error)}") from error
        return TlsIdentity(context, sha256(sha256(cert).digest() + key).digest())

    def _server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(_ALPN)
        try:
            # Without a passphrase, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self.cert, self.key, password="")
        except ssl.SSLError as error:
            if error.reason in _FOREIGN:
                raise _flaw(self.key, "does not belong to the certificate") from error
            if error.reason in _WEAK:
                raise _flaw(self.cert, f"cannot be used: {_reason(error)}") from error
            raise _flaw(self.key, "holds no private key that can be read") from error
        except OSError as error:
            raise _flaw(self.cert, f"cannot be read: {error.strerror}") from error
        return context


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _flaw(file, f"cannot be read: {error.strerror}") from error


def _client(file: Path, cert: bytes) -> ssl.SSLContext:
    """Return a client that trusts the first certificate in `cert`, and nothing else."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    text = cert.decode("ascii", "replace")
    first = "".join(text.partition(_END)[:2])
    try:
        # The first says whether it has expired; the others need only be certificates.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
        client.load_verify_locations(cadata=first)
    except (ssl.SSLError, ValueError) as error:
        raise _flaw(file, "holds no certificate as PEM") from error
    return client


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Open a connection within memory; raises SSLError as the client would see it."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True)]
    while ends:
        for end in tuple(ends):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                ends.remove(end)


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "unknown reason").lower().replace("_", " ")


def _flaw(file: Path, reason: str) -> ManifestError:
    return ManifestError((Problem(str(file), 0, "", reason),))


def manifest_pair(loaded: LoadedManifest) -> TlsPair | None:
    """Return the pair that a manifest names, if it names one."""
    tls = loaded.manifest.server.tls
    if tls is None:
        return None
    return TlsPair(resolve_path(loaded.folder, tls.cert), resolve_path(loaded.folder, tls.key))


def refuse_broken_tls(loaded: LoadedManifest) -> None:
    """Raise ManifestError, at server.tls.cert or .key, for a pair that cannot serve. Blocks."""
    pair = manifest_pair(loaded)
    if pair is None:
        return
    try:
        pair.load()
    except ManifestError as error:
        tree = read_tree(loaded.text, lambda text: text)
        name = str(loaded.file or "manifest")
        problems = []
        for flaw in error.problems:
            part = "cert" if flaw.file == str(pair.cert) else "key"
            line = tree.line_of(("server", "tls", part))
            reason = f"{flaw.file} {flaw.reason}"
            problems.append(Problem(name, line, f"server.tls.{part}", reason))
        raise ManifestError(tuple(problems)) from error


class Replaceable(Protocol):
    """What the keeper keeps: a listener."""

    async def replace(self, pair: TlsPair | None) -> bool:
        """Serve new connections with what `pair` holds now; see Listener.replace."""


class TlsKeeper:
    """Keeps a listener's certificate the one that its files hold. Event loop only.

    `use` says which files; one task runs `run`, which alone replaces. Files that cannot be used
    leave the certificate in force.
    """

    def __init__(self, listener: Replaceable, pair: TlsPair | None) -> None:
        self._listener = listener
        self._pair = pair
        self._changed = asyncio.Event()

    def use(self, pair: TlsPair | None) -> None:
        """Follow these files from now on; None = plain HTTP."""
        self._pair = pair
        self._changed.set()

    async def run(self) -> None:
        """Watch and replace until cancelled."""
        while True:
            pair = self._pair
            async with asyncio.TaskGroup() as group:
                files = dict.fromkeys((pair.cert, pair.key)) if pair else ()
                watchers = [
                    group.create_task(Watcher(file, self._changed.set).run()) for file in files
                ]
                while self._pair == pair:
                    await self._replace()
                    await self._changed.wait()
                    await self._settle(pair)
                for watcher in watchers:
                    watcher.cancel()

    async def _settle(self, pair: TlsPair | None) -> None:
        """Wait for the other file, unless other files are asked for."""
        if self._pair == pair:
            await asyncio.sleep(_PATIENCE_SECONDS)
        self._changed.clear()

    async def _replace(self) -> None:
        pair = self._pair
        try:
            is_new = await self._listener.replace(pair)
        except (ManifestError, AddressInUse) as error:
            log.warning("tls_rejected", reason=str(error))
        else:
            if is_new:
                log.info("tls_replaced", cert=str(pair.cert) if pair else None)
