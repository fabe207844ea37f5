"""What a child imports, whatever lies in the folder where it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.launch import module_command, module_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TRAP = "raise SystemExit('a file of the user was run')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the user's whose files are named as modules are."""
    for name in ("msgspec", "json", "pip", "appliance"):
        (tmp_path / f"{name}.py").write_text(TRAP)
    return tmp_path


@pytest.mark.parametrize("module", ["appliance.registry.fetch", "appliance.engine.convert", "pip"])
def test_module_command_runs_nothing_of_the_current_folder(folder: Path, module: str) -> None:
    done = subprocess.run(
        module_command(module, "--help"),
        cwd=folder,
        env=module_environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "usage" in done.stdout.lower()


def test_channel_starts_children_that_run_nothing_of_the_current_folder(folder: Path) -> None:
    code = (
        "import os, sys; from appliance.channel import spawn_child; os.chdir(sys.argv[1]);"
        "process, sock = spawn_child('appliance.chat.process', str(2**30)); sock.close();"
        "sys.exit(process.wait())"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_module_environment_keeps_what_was_there() -> None:
    environment = module_environment({"PYTHONPATH": "/somewhere", "A": "b"})

    assert environment["A"] == "b"
    assert environment["PYTHONPATH"].split(os.pathsep)[-1] == "/somewhere"
