import signal
import socket
from pathlib import Path

import pytest

from tests.appliance_server import ECHO_FILES, ECHO_MANIFEST, RunningAppliance, running_appliance
from tests.cli.command import Terminal, run_command

pytestmark = pytest.mark.slow


def _served(folder: Path, manifest: str = ECHO_MANIFEST) -> list[str | Path]:
    """Write a manifest and return the arguments that serve it on a free port."""
    (folder / "vllm-mlx.yaml").write_text(manifest, encoding="utf-8")
    (folder / "script.yaml").write_text("[]\n", encoding="utf-8")
    config, state = folder / "vllm-mlx.yaml", folder / "state"
    return ["serve", "-c", config, "--state-dir", state, "--port", "0"]


def test_serve_ends_cleanly_on_sigterm() -> None:
    with running_appliance() as appliance:
        code = appliance.stop()

        assert code == 0
        assert "Traceback" not in appliance.errors()
        assert appliance.logs()[-1]["event"] == "stopped"
    assert not appliance.state_dir.exists()


def test_serve_runs_nothing_of_the_folder_where_it_starts() -> None:
    traps = dict.fromkeys(("msgspec.py", "json.py", "appliance.py"), "raise SystemExit('trapped')")

    with running_appliance(files={**ECHO_FILES, **traps}) as appliance:
        assert appliance.stop() == 0
        assert "trapped" not in appliance.errors()


def test_serve_finds_the_manifest_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "vllm-mlx.yaml").write_text("version: 2\n", encoding="utf-8")

    done = run_command("serve", "--port", "0", "--state-dir", tmp_path / "state", cwd=tmp_path)

    assert done.returncode == 1
    assert "vllm-mlx.yaml:1: version" in done.stderr


def test_serve_tells_every_problem_of_a_manifest(tmp_path: Path) -> None:
    manifest = "version: 1\nserver: {drian: 1s}\nmodels: [{name: a}]\n"

    done = run_command(*_served(tmp_path, manifest))

    assert done.returncode == 1
    assert done.stdout == ""
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == [
        "server.drian",
        "models.0.source",
    ]


def test_serve_on_a_taken_port_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        done = run_command(*_served(tmp_path), "--port", port)

    assert done.returncode == 1
    assert port in done.stderr
    assert done.stderr.count("\n") == 1


def test_serve_on_a_taken_state_folder_is_told_in_one_line(
    echo: RunningAppliance, tmp_path: Path
) -> None:
    done = run_command(*_served(tmp_path), "--state-dir", echo.state_dir)

    assert done.returncode == 1
    assert str(echo.state_dir) in done.stderr
    assert done.stderr.count("\n") == 1


def test_serve_for_everybody_without_keys_is_refused(tmp_path: Path) -> None:
    done = run_command(*_served(tmp_path), "--host", "0.0.0.0")  # noqa: S104

    assert done.returncode == 1
    assert "allow_lan_without_keys" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_greets_on_a_terminal_and_ends_on_a_signal(
    number: signal.Signals, tmp_path: Path
) -> None:
    with Terminal(*_served(tmp_path)) as terminal:
        terminal.wait_for(r"Serving http://127\.0\.0\.1:\d+ ")
        terminal.process.send_signal(number)
        terminal.wait_for("stopped")

        assert terminal.wait_end() == 0
        assert "Traceback" not in terminal.text
