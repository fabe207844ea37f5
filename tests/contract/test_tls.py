"""HTTPS from a served manifest: renewed files, broken ones, and the section coming and going."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.api.tls_client import make_pair, trusting_context
from tests.appliance_server import RunningAppliance, running_appliance, wait_until
from tests.contract.http import PATH, chat_body, read_events

pytestmark = pytest.mark.slow

PLAIN = """\
version: 1
models:
  - {name: chat, source: "scripted:script.yaml", residency: {preload: true}}
"""
MANIFEST = PLAIN + "server:\n  tls: {cert: tls.crt, key: tls.key}\n"
SCRIPT = """\
- match: "forever"
  pieces: ["tick "]
  piece_delay: 20ms
  repeat: 100000
"""
ANYBODY = trusting_context("http/1.1")


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pems")
    for name in ("old", "new"):
        make_pair(folder, name)
    return folder


def files(pems: Path) -> dict[str, str]:
    pair = {f"tls.{end}": (pems / f"old.{end}").read_text() for end in ("crt", "key")}
    return {"script.yaml": SCRIPT, **pair}


@pytest.fixture
def running(pems: Path) -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, files(pems), is_ready=False) as appliance:
        wait_until(lambda: ready_status(appliance.url) == 200, what="the appliance is ready")
        yield appliance


def ready_status(url: str) -> int:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/health/ready", verify=ANYBODY).status_code
    return 0


def served_certificate(url: str) -> str:
    where = urlsplit(url)
    assert where.hostname and where.port
    return ssl.get_server_certificate((where.hostname, where.port))


def same(left: str, right: Path) -> bool:
    return ssl.PEM_cert_to_DER_cert(left) == ssl.PEM_cert_to_DER_cert(right.read_text())


def write_pair(running: RunningAppliance, pems: Path, cert: str, key: str) -> None:
    (running.folder / "tls.crt").write_text((pems / f"{cert}.crt").read_text())
    (running.folder / "tls.key").write_text((pems / f"{key}.key").read_text())


def https_of(url: str) -> str:
    return url.replace("http:", "https:", 1)


def test_renewed_files_are_served_under_a_running_stream(
    running: RunningAppliance, pems: Path
) -> None:
    body = chat_body("forever", stream=True, max_tokens=100)
    with httpx.Client(verify=ANYBODY, timeout=30) as client:
        with client.stream("POST", running.url + PATH, json=body) as response:
            chunks = response.iter_raw()
            head = next(chunks)
            write_pair(running, pems, "new", "new")
            running.log_lines.wait_for("tls_replaced")
            assert same(served_certificate(running.url), pems / "new.crt")
            raw = head + b"".join(chunks)

        events, _ = read_events(raw.decode())
        assert events[-1] == "[DONE]"


def test_broken_renewal_leaves_the_certificate(running: RunningAppliance, pems: Path) -> None:
    write_pair(running, pems, "old", "new")

    rejected = running.log_lines.wait_for("tls_rejected")

    assert rejected is not None
    assert "tls.key: does not belong to the certificate" in rejected["reason"]
    assert same(served_certificate(running.url), pems / "old.crt")


def test_manifest_with_a_broken_pair_is_refused(running: RunningAppliance, pems: Path) -> None:
    (running.folder / "other.key").write_text((pems / "new.key").read_text())
    text = MANIFEST.replace("key: tls.key", "key: other.key")

    answer = httpx.put(
        f"{running.url}/admin/v1/manifest", content=text, headers={"if-match": "*"}, verify=ANYBODY
    )

    assert answer.status_code == 422
    (problem,) = answer.json()["error"]["problems"]
    assert problem["path"] == "server.tls.key"
    assert running.manifest.read_text() == MANIFEST


def test_section_may_come_and_go(pems: Path) -> None:
    with running_appliance(PLAIN, files(pems)) as running:
        running.manifest.write_text(MANIFEST)
        wait_until(lambda: ready_status(https_of(running.url)) == 200, what="https")

        running.manifest.write_text(PLAIN)
        wait_until(lambda: ready_status(running.url) == 200, what="http")
