"""Bring `.venv` in the project's root up to date with the lock files: prepare.py [SET...].

A set is a lock file: the base set is requirements.lock, NAME is requirements-NAME.lock; the
environment variable VLLM_MLX_EXTRAS adds sets. Uses the standard library only, since it runs before
anything is installed, and pip with the machine's own settings.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "prepared"
LOG = VENV / "prepare.log"
BASE = "base"
OPENBLAS = "libopenblas0-pthread"

FULL_BYTES = 16 * 2**20
DISK_FULL = "the disk is full"
REASONS = (
    (r"No space left on device", DISK_FULL),
    (r"DO NOT MATCH THE HASHES", "a package differs from its hash in the lock file"),
    (
        r"ConnectionError|NameResolution|ConnectTimeout|ReadTimeout|ProxyError|SSLError",
        "the package index cannot be reached (is there a network?)",
    ),
    (
        r"No matching distribution",
        "the package index cannot be reached, or has no build for this Python and machine",
    ),
)


class PrepareError(Exception):
    """The environment cannot be prepared; the message is one line for a person."""


def say(text: str) -> None:
    """Print one line for a person on stderr: stdout belongs to the command that follows."""
    print(f"prepare: {text}", file=sys.stderr, flush=True)


def lock_file(name: str) -> Path:
    """Return the lock file of a set."""
    path = ROOT / ("requirements.lock" if name == BASE else f"requirements-{name}.lock")
    if not path.is_file():
        raise PrepareError(f"nothing to install is called '{name}': there is no {path.name}")
    return path


def digest(name: str) -> str:
    """Return what the stamp says of a set; another value means that it must be installed again."""
    parts = [ROOT / "pyproject.toml", lock_file(BASE), lock_file(name)]
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()


def runs(python: Path) -> bool:
    """Say whether an interpreter starts; one does not once the Python it came from is removed."""
    if sys.prefix == str(python.parent.parent):
        return True
    return python.exists() and subprocess.run([python, "-c", ""], check=False).returncode == 0


def read_stamp() -> dict[str, str]:
    """Return set -> digest as installed; empty if nothing usable is (a moved folder is not)."""
    try:
        home, *lines = STAMP.read_text().splitlines()
    except (FileNotFoundError, ValueError):
        return {}
    usable = home == str(ROOT) and runs(VENV / "bin/python")
    return dict(line.split() for line in lines) if usable else {}


def write_stamp(installed: dict[str, str]) -> None:
    """Say that these sets are installed: last and by rename, so that a stamp means complete."""
    draft = STAMP.with_suffix(".new")
    draft.write_text("\n".join([str(ROOT), *(f"{n} {d}" for n, d in installed.items())]) + "\n")
    draft.replace(STAMP)


@contextlib.contextmanager
def only_one() -> Iterator[int]:
    """Hold a lock on the project's folder; the kernel drops it however this process ends.

    Yields the descriptor: children inherit it, so that a pip left behind still keeps others out.
    """
    descriptor = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another one is preparing this folder; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def create_environment() -> None:
    """Make an empty `.venv`, replacing whatever an interrupted run left."""
    if importlib.util.find_spec("ensurepip") is None:
        raise PrepareError(
            f"{sys.executable} has no venv module (on Debian: apt-get install python3-venv)"
        )
    say("creating .venv")
    try:
        venv.EnvBuilder(clear=True, symlinks=True, with_pip=True).create(VENV)
    except subprocess.CalledProcessError as error:
        raise PrepareError("Python could not put pip into .venv; is the disk full?") from error


def why_pip_failed() -> str:
    """Return a reason for a person, from pip's log; on a full disk the log may be cut short."""
    if shutil.disk_usage(VENV).free < FULL_BYTES:
        return DISK_FULL
    log = LOG.read_text(errors="replace")
    return next((why for pattern, why in REASONS if re.search(pattern, log)), "pip failed")


def install(lock: int, *args: str) -> None:
    """Run `pip install` in `.venv`: with its progress on a terminal, silent elsewhere."""
    pip = [str(VENV / "bin/python"), "-I", "-m", "pip"]
    command = [*pip, "install", "--no-input", "--no-deps", *args]
    with LOG.open("w") as log:
        if sys.stderr.isatty():
            code = subprocess.call(
                [*command, "--log", str(LOG)], pass_fds=[lock], stdout=sys.stderr
            )
        else:
            code = subprocess.call(command, pass_fds=[lock], stdout=log, stderr=log)
    if code:
        raise PrepareError(f"{why_pip_failed()}; details in {LOG}")


def has_openblas() -> bool:
    """Say whether the fast BLAS that workers look for can be loaded."""
    try:
        ctypes.CDLL("libopenblas.so.0")
    except OSError:
        return False
    return True


def apt_get(*args: str) -> bool:
    """Run apt-get without questions; say whether it succeeded."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-y", "-qq", "--no-install-recommends", *args]
    return subprocess.call(command, env=environment, stdout=subprocess.DEVNULL) == 0


def add_openblas() -> None:
    """Give MLX's CPU build a fast BLAS: install Debian's as root, else say what to do."""
    if sys.platform != "linux" or has_openblas():
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing OpenBLAS ({OPENBLAS})")
        if apt_get("install", OPENBLAS) or (apt_get("update") and apt_get("install", OPENBLAS)):
            return
    say(f"hint: without OpenBLAS models run much slower on a CPU (on Debian: install {OPENBLAS})")


def prepare(names: list[str]) -> None:
    """Install the sets that are missing or out of date; returns at once if none is."""
    wanted = {name: digest(name) for name in names}
    if wanted.items() <= read_stamp().items():
        return
    with only_one() as lock:
        installed = read_stamp()
        missing = [name for name in names if installed.get(name) != wanted[name]]
        if not missing:
            return
        if not installed:
            create_environment()
        STAMP.unlink(missing_ok=True)
        for name in missing:
            say(f"installing {lock_file(name).name} (minutes the first time, seconds later)")
            install(lock, "--require-hashes", "--only-binary=:all:", "-r", str(lock_file(name)))
        install(lock, "--no-build-isolation", "--no-index", "-e", str(ROOT))
        add_openblas()
        write_stamp(installed | wanted)


def main() -> int:
    """Prepare the sets named on the command line and in VLLM_MLX_EXTRAS; return the exit code."""
    extras = os.environ.get("VLLM_MLX_EXTRAS", "").replace(",", " ").split()
    try:
        prepare(list(dict.fromkeys([BASE, *sys.argv[1:], *extras])))
    except PrepareError as error:
        say(str(error))
    except OSError as error:
        say(f"cannot write {error.filename or VENV}: {error.strerror}")
    except KeyboardInterrupt:
        return 130
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
