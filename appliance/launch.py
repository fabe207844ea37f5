"""Say how to start a Python module as a child process that runs this program's code only."""

import os
import site
import sys
from collections.abc import Mapping
from pathlib import Path

SAFE_PYTHON = (sys.executable, "-P")
"""This interpreter, told not to import from the current folder, which is the user's."""

_ROOT = Path(__file__).resolve().parent.parent


def module_command(module: str, *args: str) -> list[str]:
    """Return the command line of `python -m module args…`; needs `module_environment`."""
    return [*SAFE_PYTHON, "-m", module, *args]


def module_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return `environ` (None = this process's own), made so that a child finds this package.

    An installed package is found anyway. A checkout that only the current folder made importable
    comes first on PYTHONPATH.
    """
    environment = dict(os.environ if environ is None else environ)
    # The folder of all installed packages stays out: there it would come before Python's own.
    installed = (*site.getsitepackages(), site.getusersitepackages())
    if _ROOT not in (Path(folder).resolve() for folder in installed):
        rest = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{_ROOT}{os.pathsep}{rest}" if rest else str(_ROOT)
    return environment
