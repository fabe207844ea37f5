"""Check that tracked files name no package registry and no machine, and that locks are complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
PIN = re.compile(r"^([a-z0-9.-]+)==(\S+)", re.MULTILINE)

# Built from halves so that this file does not find itself.
REGISTRIES = ("pypi" + ".org", "pythonhosted" + ".org", "registry.npm" + "js.org", "npm" + "js.com")
MACHINE_PATHS = ("/root" + "/", "/home" + "/", "/Users" + "/", "/opt" + "/pypi", "/work" + "/")
FOREIGN = re.compile("|".join(map(re.escape, (*REGISTRIES, *MACHINE_PATHS))))


def project_files() -> list[Path]:
    """Return what is tracked or would be: everything git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_files_name_no_registry_and_no_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in project_files()
        for match in FOREIGN.finditer(path.read_text(errors="replace"))
    ]

    assert found == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_lock_holds_hashed_pins_only(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if not line.lstrip().startswith("#")]

    assert lines
    assert all(re.match(r"[a-z0-9.-]+==\S+|    --hash=sha256:[0-9a-f]{64}", line) for line in lines)


def test_locks_bring_in_no_torch() -> None:
    names = {name for lock in LOCKS for name, _ in PIN.findall(lock.read_text())}

    assert not {"torch", "torchvision", "torchaudio"} & names


def test_locks_pin_a_package_once() -> None:
    base = dict(PIN.findall((ROOT / "requirements.lock").read_text()))
    others = [lock for lock in LOCKS if lock.name != "requirements.lock"]

    assert not any(name in base for lock in others for name, _ in PIN.findall(lock.read_text()))


@pytest.mark.slow
def test_installed_packages_fit_together() -> None:
    command = [sys.executable, "-m", "pip", "check", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
