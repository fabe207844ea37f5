"""Operators run the commands against a real appliance, on a terminal and in a pipe."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.appliance_server import RunningAppliance, running_appliance
from tests.cli.command import Terminal, run_command
from tests.contract.admin import model_status, wait_number

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
memory: {budget: 10GiB, reserve: 0}
models:
  - {name: chat, source: "scripted:a.yaml", engine: {memory: 4GiB}, residency: {preload: true}}
"""
FILES = {"a.yaml": "[]\n", "b.yaml": "[]\n"}


@pytest.fixture
def running() -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, FILES) as appliance:
        wait_number(appliance, 1)
        yield appliance


def _run(running: RunningAppliance, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as on the appliance's own machine: through the state folder's socket."""
    return run_command(*words, "--state-dir", running.state_dir, cwd=running.folder)


def _written(running: RunningAppliance, text: str) -> str:
    file = running.folder / "new.yaml"
    file.write_text(text)
    return str(file)


def test_apply_waits_until_the_swap_is_done(running: RunningAppliance) -> None:
    file = _written(running, MANIFEST.replace("a.yaml", "b.yaml"))

    planned = _run(running, "plan", file)
    applied = _run(running, "apply", file, "--yes")

    assert (planned.returncode, applied.returncode) == (0, 0), applied.stderr
    assert "swap" in planned.stdout and "8.0 GiB" in planned.stdout
    report = model_status(running, "chat")
    assert report["phase"] == "ready" and report["observed_key"] == report["desired_key"]


def test_apply_says_what_is_wrong_with_its_file(running: RunningAppliance) -> None:
    applied = _run(
        running, "apply", _written(running, MANIFEST.replace("budget", "bugdet")), "--yes"
    )

    assert applied.returncode == 1
    assert "new.yaml:2: memory.bugdet" in applied.stderr + applied.stdout
    assert running.manifest.read_text() == MANIFEST


@pytest.mark.parametrize("change", [("a.yaml", "none.yaml"), ("4GiB", "12GiB")])
def test_apply_that_cannot_converge_exits_with_3(
    running: RunningAppliance, change: tuple[str, str]
) -> None:
    applied = _run(running, "apply", _written(running, MANIFEST.replace(*change)), "--yes")

    assert applied.returncode == 3
    assert model_status(running, "chat")["phase"] == "ready"


def test_rollback_and_history_tell_the_story(running: RunningAppliance) -> None:
    _run(running, "apply", _written(running, MANIFEST.replace("a.yaml", "b.yaml")), "--yes")

    back = _run(running, "rollback", "--yes")
    history = json.loads(_run(running, "history", "--json").stdout)

    assert back.returncode == 0, back.stderr
    assert running.manifest.read_text() == MANIFEST
    rows = history["revisions"] if isinstance(history, dict) else history
    assert [row["how"] for row in rows] == ["rollback", "apply", "start"]


def test_operators_wishes_show_and_end(running: RunningAppliance) -> None:
    assert _run(running, "unload", "chat").returncode == 0
    wait_number(running, 1)
    shown = _run(running, "status")
    drift = _run(running, "diff")
    assert _run(running, "unpin", "chat").returncode == 0
    wait_number(running, 1)

    assert "chat" in shown.stdout
    assert drift.returncode == 3 and "chat" in drift.stdout
    assert model_status(running, "chat")["phase"] == "ready"


def test_logs_and_top_show_what_runs(running: RunningAppliance) -> None:
    logs = _run(running, "logs", "-n", "50")
    top = _run(running, "top")

    assert "manifest_accepted" in logs.stdout
    assert "chat" in top.stdout


def test_apply_asks_on_a_terminal_and_shows_progress(running: RunningAppliance) -> None:
    file = _written(running, MANIFEST.replace("a.yaml", "b.yaml"))
    words = ("apply", file, "--state-dir", str(running.state_dir))

    with Terminal(*words) as terminal:
        terminal.wait_for(r"swap[\s\S]*\[y/N\]")
        terminal.type("y\n")
        terminal.wait_for(r"(?i)converged|revision 2")
        code = terminal.process.wait(30)

    assert code == 0
    assert model_status(running, "chat")["phase"] == "ready"
