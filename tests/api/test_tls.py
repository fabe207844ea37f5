"""Certificates are checked before they serve, and change under running connections."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path

import pytest
import uvloop
from structlog.testing import capture_logs
from structlog.typing import EventDict

from appliance.api.listener import Listener
from appliance.api.tls import TlsKeeper, TlsPair, refuse_broken_tls
from appliance.errors import ManifestError
from appliance.manifest.load import LoadedManifest, load_manifest_text
from tests.api.tls_client import (
    PATIENCE_SECONDS,
    Answers,
    Load,
    certificate,
    connected,
    listening,
    make_pair,
    run_openssl,
    served,
    trusting_context,
)

pytestmark = pytest.mark.slow

Run = Callable[[Coroutine[None, None, None]], None]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""What an HTTP/2 client says first: RFC 9113, 3.4, with an empty SETTINGS frame."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of file: the pairs old, new and expired, and files that cannot be used."""
    folder = tmp_path_factory.mktemp("tls")
    make_pair(folder, "old")
    make_pair(folder, "new")
    make_pair(folder, "expired", days=-1)
    run_openssl(
        folder, "req -x509 -newkey rsa:2048 -nodes -keyout rsa.key -out rsa.crt -subj /CN=a"
    )
    run_openssl(folder, "rsa -in rsa.key -aes128 -passout pass:x -out locked.key")
    (folder / "text").write_text("hello")
    (folder / "short.key").write_text(
        "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----"
    )
    (folder / "both.pem").write_bytes(
        (folder / "old.crt").read_bytes() + (folder / "old.key").read_bytes()
    )
    return folder


@pytest.fixture
def old(folder: Path) -> TlsPair:
    return TlsPair(folder / "old.crt", folder / "old.key")


@pytest.fixture
def new(folder: Path) -> TlsPair:
    return TlsPair(folder / "new.crt", folder / "new.key")


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a scenario in each event loop that may serve."""
    return uvloop.run if request.param == "uvloop" else asyncio.run


@pytest.mark.parametrize(
    "pair", [("old.crt", "old.key"), ("both.pem", "both.pem"), ("rsa.crt", "rsa.key")]
)
def test_good_pair_is_accepted(folder: Path, pair: tuple[str, str]) -> None:
    TlsPair(folder / pair[0], folder / pair[1]).load()


@pytest.mark.parametrize(
    ("cert", "key", "problem"),
    [
        ("none.crt", "old.key", "none.crt: cannot be read: No such file or directory"),
        ("old.crt", "none.key", "none.key: cannot be read: No such file or directory"),
        ("old.crt", ".", "tls0: cannot be read: Is a directory"),
        ("text", "old.key", "text: holds no certificate as PEM"),
        ("old.crt", "text", "text: holds no private key as PEM"),
        ("old.crt", "short.key", "short.key: holds no private key that can be read"),
        ("old.crt", "new.key", "new.key: does not belong to the certificate"),
        ("old.crt", "rsa.key", "rsa.key: does not belong to the certificate"),
        ("rsa.crt", "locked.key", "locked.key: is encrypted; a key without a passphrase is needed"),
        ("expired.crt", "expired.key", "expired.crt: certificate has expired"),
    ],
)
def test_broken_pair_is_refused_in_one_line(
    folder: Path, cert: str, key: str, problem: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        TlsPair(folder / cert, folder / key).load()

    assert str(caught.value) == str(folder.parent / problem if key == "." else folder / problem)


def _manifest(folder: Path, cert: str, key: str) -> LoadedManifest:
    text = f"version: 1\nserver:\n  tls:\n    cert: {cert}\n    key: {key}\n"
    return load_manifest_text(text, name="vllm-mlx.yaml", folder=folder)


def test_manifest_with_a_broken_pair_is_refused_at_its_line(folder: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        refuse_broken_tls(_manifest(folder, "old.crt", str(folder / "new.key")))

    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (5, "server.tls.key")
    assert problem.reason == f"{folder / 'new.key'} does not belong to the certificate"


def test_manifest_with_a_good_pair_or_none_is_accepted(folder: Path) -> None:
    refuse_broken_tls(_manifest(folder, "old.crt", "old.key"))
    refuse_broken_tls(load_manifest_text("version: 1\n", name="m", folder=folder))


def test_https_answers(run: Run, old: TlsPair) -> None:
    async def scenario() -> None:
        async with listening(old) as listener, connected(listener) as connection:
            await connection.ask()

            assert b"two" in await connection.answer()
            assert listener.url.startswith("https://127.0.0.1:")
            assert connection.certificate == certificate(old)

    run(scenario())


def test_http2_is_offered_and_spoken(run: Run, old: TlsPair) -> None:
    async def scenario() -> None:
        h2 = trusting_context("h2")
        async with listening(old) as listener, connected(listener, h2) as connection:
            connection.writer.write(PREFACE)
            frame = await connection.reader.readexactly(9)

            tls = connection.writer.get_extra_info("ssl_object")
            assert tls.selected_alpn_protocol() == "h2"
            assert frame[3] == 4  # SETTINGS

    run(scenario())


def test_new_certificate_costs_no_connection(run: Run, old: TlsPair, new: TlsPair) -> None:
    async def scenario() -> None:
        app = Answers()
        async with listening(old, app) as listener, connected(listener) as stream:
            await stream.ask("/stream")
            async with connected(listener) as idle:
                assert await listener.replace(new)
                assert await served(listener) == certificate(new)
                await idle.ask()
                await idle.answer()
            app.go.set()

            assert (await stream.answer()).count(b"end") == 1
            assert stream.certificate == certificate(old)

    run(scenario())


def test_same_certificate_is_no_change(run: Run, old: TlsPair) -> None:
    async def scenario() -> None:
        async with listening(old) as listener:
            assert not await listener.replace(old)

    run(scenario())


@pytest.mark.parametrize("is_first_plain", [True, False])
def test_stream_survives_the_change_between_http_and_https(
    run: Run, old: TlsPair, is_first_plain: bool
) -> None:
    first, second = (None, old) if is_first_plain else (old, None)

    async def scenario() -> None:
        app = Answers()
        async with listening(first, app) as listener:
            async with connected(listener, is_plain=is_first_plain) as stream:
                await stream.ask("/stream")
                assert await listener.replace(second)
                await _answers(listener, is_plain=not is_first_plain)
                app.go.set()

                assert (await stream.answer()).count(b"end") == 1
            assert listener.url.startswith("https:") is is_first_plain

    run(scenario())


async def _answers(listener: Listener, *, is_plain: bool) -> None:
    """Ask until an answer comes: the old socket takes connections until it has closed."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                async with connected(listener, is_plain=is_plain) as connection:
                    await connection.ask()
                    await connection.answer()
                    return
            await asyncio.sleep(0)


def test_twenty_certificates_under_load_lose_no_request(
    run: Run, old: TlsPair, new: TlsPair
) -> None:
    async def scenario() -> None:
        async with listening(old) as listener:
            load = Load(listener, num_clients=8)
            await load.more(50)

            for number in range(20):
                assert await listener.replace(old if number % 2 else new)
                await load.more(50)

            assert await load.finish() == {}

    run(scenario())


def test_broken_key_leaves_the_old_certificate(run: Run, folder: Path, old: TlsPair) -> None:
    async def scenario() -> None:
        async with listening(old) as listener:
            with pytest.raises(ManifestError, match="does not belong to the certificate"):
                await listener.replace(TlsPair(old.cert, folder / "new.key"))

            assert await served(listener) == certificate(old)

    run(scenario())


def test_departure_of_a_client_reaches_the_app(run: Run, old: TlsPair) -> None:
    async def scenario() -> None:
        app = Answers()
        async with listening(old, app) as listener:
            async with connected(listener) as connection:
                await connection.ask("/wait")
                await connection.until(b"one")

            await asyncio.wait_for(app.is_gone.wait(), PATIENCE_SECONDS)

    run(scenario())


def test_stop_cuts_what_does_not_end(run: Run, old: TlsPair) -> None:
    async def scenario() -> None:
        async with listening(old) as listener, connected(listener) as connection:
            await connection.ask("/stream")
            await connection.until(b"one")

            await listener.stop()

            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await connection.answer()
            with pytest.raises(ConnectionRefusedError):
                await served(listener)

    run(scenario())


def test_keeper_serves_what_its_files_hold(run: Run, folder: Path, tmp_path: Path) -> None:
    pair = TlsPair(tmp_path / "tls.crt", tmp_path / "tls.key")
    _copy(folder, "old", pair)

    async def scenario() -> None:
        async with listening(pair) as listener:
            keeping = asyncio.create_task(TlsKeeper(listener, pair).run())
            before = certificate(pair)
            shutil.copy(folder / "new.crt", pair.cert)
            await _logged(logs, "tls_rejected")
            assert await served(listener) == before

            _copy(folder, "new", pair)
            await _logged(logs, "tls_replaced")

            assert await served(listener) == certificate(pair)
            keeping.cancel()
            await asyncio.wait({keeping})

    with capture_logs() as logs:
        run(scenario())


def test_keeper_follows_the_manifest(run: Run, old: TlsPair, new: TlsPair) -> None:
    async def scenario() -> None:
        async with listening(old) as listener:
            keeper = TlsKeeper(listener, old)
            keeping = asyncio.create_task(keeper.run())

            for pair in (new, None, old):
                keeper.use(pair)
                await _logged(logs, "tls_replaced")
                logs.clear()

            await _answers(listener, is_plain=False)
            keeping.cancel()
            await asyncio.wait({keeping})

    with capture_logs() as logs:
        run(scenario())


def _copy(folder: Path, name: str, pair: TlsPair) -> None:
    shutil.copy(folder / f"{name}.crt", pair.cert)
    shutil.copy(folder / f"{name}.key", pair.key)


async def _logged(logs: list[EventDict], event: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not any(line["event"] == event for line in logs):
            await asyncio.sleep(0.01)
