"""Prepare a process for MLX, and spend little on tests that a run leaves out."""

import gc
import os
import re
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from appliance.engine.blas import preload_blas

_ALL_BUT = re.compile(r"not \w+( and not \w+)*")
_MARKS_OF_ALL = re.compile(r"^pytestmark = (.+)", re.MULTILINE)

# Tests run beside each other: threads that wait for one another's core would only spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The program is started again and again, and tests are rewritten: both are compiled but once.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

preload_blas()

settings.register_profile("fast", max_examples=10)


def pytest_configure(config: pytest.Config) -> None:
    """Let tests draw a tenth of their examples where the slow ones are left out."""
    if "slow" in _left_out(config):
        settings.load_profile("fast")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file unread if it gives all its tests a mark that is left out."""
    left_out = _left_out(config)
    if not left_out or collection_path.suffix != ".py":
        return None
    marks = _MARKS_OF_ALL.search(collection_path.read_text(encoding="utf-8"))
    return True if marks and left_out & set(re.findall(r"mark\.(\w+)", marks[1])) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, nor later among what that makes: it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _left_out(config: pytest.Config) -> set[str]:
    """Return the marks that `-m` leaves out, if it does nothing else."""
    expression: str = config.option.markexpr
    return set(re.findall(r"not (\w+)", expression)) if _ALL_BUT.fullmatch(expression) else set()
