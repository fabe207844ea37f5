import json
import socket
from pathlib import Path

import pytest

from appliance.cli import check
from tests.appliance_server import RunningAppliance
from tests.cli.command import run_command

pytestmark = pytest.mark.slow

_NAMES = {"platform", "python", "mlx", "disk", "port", "manifest", "open files", "hub"}


def _address(appliance: RunningAppliance) -> tuple[str, int]:
    host, port = appliance.url.removeprefix("http://").split(":")
    return host, int(port)


def test_doctor_answers_as_json(tmp_path: Path) -> None:
    (tmp_path / "vllm-mlx.yaml").write_text("version: 1\n", encoding="utf-8")

    done = run_command("doctor", "--json", "--port", "0", "--state-dir", tmp_path, cwd=tmp_path)

    report = json.loads(done.stdout)
    assert report["ok"] is (done.returncode == 0)
    assert {each["name"] for each in report["checks"]} >= _NAMES
    assert {each["verdict"] for each in report["checks"]} <= {"ok", "warning", "failed"}
    assert all(each.keys() == {"name", "verdict", "detail", "hint"} for each in report["checks"])


def test_doctor_fails_on_a_wrong_manifest(tmp_path: Path) -> None:
    manifest = tmp_path / "wrong.yaml"
    manifest.write_text("version: 1\nmodells: []\n", encoding="utf-8")

    done = run_command("doctor", "-c", manifest, "--port", "0", "--state-dir", tmp_path)

    assert done.returncode == 1
    line = next(line for line in done.stdout.splitlines() if "manifest" in line)
    assert line.startswith("failed ")
    assert f"{manifest}:2: modells" in line


@pytest.mark.parametrize(
    ("system", "machine", "verdict"),
    [
        pytest.param("darwin", "arm64", "ok", id="Apple silicon"),
        pytest.param("darwin", "x86_64", "failed", id="Intel Mac"),
        pytest.param("linux", "aarch64", "ok", id="Linux"),
        pytest.param("win32", "AMD64", "failed", id="Windows"),
    ],
)
def test_platform_is_one_that_mlx_runs_on(system: str, machine: str, verdict: str) -> None:
    assert check.check_platform(system, machine).verdict == verdict


@pytest.mark.parametrize(
    ("code", "told"),
    [
        pytest.param("import os; os.abort()", "code -6", id="crash"),
        pytest.param('print(\'{"error": "no library"}\')', "no library", id="import error"),
    ],
)
def test_mlx_that_does_not_work_is_told(code: str, told: str) -> None:
    (finding,) = check.check_mlx(("-c", code))

    assert finding.verdict == "failed"
    assert told in finding.detail
    assert "pip install" in finding.hint


def test_port_that_is_free_is_fine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    assert check.check_port("127.0.0.1", port).detail == f"127.0.0.1:{port} is free"


def test_port_of_an_appliance_is_fine(echo: RunningAppliance) -> None:
    finding = check.check_port(*_address(echo))

    assert finding.verdict == "ok"
    assert "answers" in finding.detail


def test_port_of_somebody_else_is_not_fine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        finding = check.check_port("127.0.0.1", taken.getsockname()[1], seconds=0.1)

    assert finding.verdict == "failed"
    assert "--port" in finding.hint


def test_hub_that_nobody_answers_is_only_a_warning() -> None:
    finding = check.check_hub("http://127.0.0.1:1")

    assert finding.verdict == "warning"


def test_disk_is_that_of_a_folder_not_made_yet(tmp_path: Path) -> None:
    finding = check.check_disk(tmp_path / "not" / "made")

    assert "free in" in finding.detail
    assert not (tmp_path / "not").exists()
