"""Check that the scripts say in one line what is missing, without touching the real environment."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what preparing reads, in a folder with a space in its name."""
    copy = tmp_path / "a project"
    shutil.copytree(ROOT / "ops", copy / "ops", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, copy)
    return copy


def run(script: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | environ
    command = [str(script), *args]
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)


def test_up_says_that_python_is_missing(project: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "dirname").symlink_to(str(shutil.which("dirname")))

    done = run(project / "ops" / "up", "--prepare", PATH=str(tools), PYTHON="")

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{project}/ops/up: Python 3.11 or newer is missing; "
        "install it, or name it: PYTHON=/path/to/python3"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("script", ["up", "test"])
def test_script_says_that_an_extra_is_unknown(project: Path, script: str) -> None:
    (project / "requirements-dev.lock").touch()

    done = run(project / "ops" / script, "--prepare", VLLM_MLX_EXTRAS="nonsense")

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "nothing to install is called 'nonsense'" in done.stderr
    assert not (project / ".venv").exists()


def test_check_refuses_an_unknown_name() -> None:
    done = run(ROOT / "ops" / "check", "nonsense")

    assert done.returncode == 1
    assert "no check is called 'nonsense'" in done.stderr
