"""What a child with one piece of work says and how it ends, over real pipes."""

import errno
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAD = (
    "import os, sys, threading\n"
    "from appliance.errand import *\nfrom appliance.errors import SourceError\n"
)


def run(work: str) -> tuple[int, list[dict[str, object]]]:
    """Run an errand that never loses its parent; return its exit code and lines."""
    code = f"{HEAD}def work():\n    {work}\nsys.exit(run_errand(work))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("raise SourceError('s', 'why', retryable=True)", {"error": "why", "retryable": True}),
        ("raise OSError('why')", {"error": "why", "retryable": False}),
        (
            f"raise OSError({errno.ENOSPC}, 'full')",
            {"error": "the disk is full", "retryable": True},
        ),
    ],
)
def test_errand_that_fails_says_why(work: str, said: dict[str, object]) -> None:
    assert run(work) == (1, [said])


def test_errand_tells_every_phase_and_every_end_and_little_between() -> None:
    code, lines = run(
        "tell = ProgressTeller().report;"
        "[tell('a', n, 1000) for n in range(1001)]; [tell('b', n, 0) for n in range(1, 1000)]"
    )

    told = [(line["phase"], line["done"]) for line in lines]
    assert code == 0
    assert ("a", 0) in told
    assert ("a", 1000) in told
    assert ("b", 1) in told
    assert len(told) < 100


def test_errand_takes_its_children_along_when_its_parent_is_gone() -> None:
    child = "import subprocess; subprocess.run([sys.executable, '-c', 'input()'], stdin=other)"
    code = f"{HEAD}other = os.pipe()[0]\ndef work():\n    tell({{}}); {child}\nrun_errand(work)"
    errand = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert errand.stdout is not None
    assert errand.stdout.readline() == b"{}\n"

    # The output ends when nobody is left that holds it.
    errand.communicate(timeout=30)

    assert errand.returncode == -signal.SIGKILL
