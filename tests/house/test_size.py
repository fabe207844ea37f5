"""Check that the caps on size hold, and that the ruler measures what it says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def measure(*folders: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "ops/sizes.py", *map(str, folders)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_sizes_are_under_the_caps() -> None:
    done = measure("appliance", "ops", "tests")

    assert done.returncode == 0, done.stdout + done.stderr


def test_sizes_name_everything_over_a_cap(tmp_path: Path) -> None:
    body = "    x = 1\n" * 50
    nest = "".join(f"{'    ' * depth}if depth:\n" for depth in range(1, 5)) + "    " * 5 + "pass\n"
    (tmp_path / "long.py").write_text(f"def long():\n{body}\n" + "x = 1\n" * 250)
    (tmp_path / "deep.py").write_text(f"def deep(depth):\n{nest}")
    (tmp_path / "wide.py").write_text("def wide(a, b, c, d, *, e, f, g): ...\n")

    said = measure(tmp_path).stdout

    assert "long.py: 301 code lines" in said
    assert "long.py:1: long: 51 code lines" in said
    assert "deep.py:1: deep: 4 levels of nesting" in said
    assert "wide.py:1: wide: 7 parameters" in said


def test_sizes_count_code_only(tmp_path: Path) -> None:
    source = '"""Module."""\n\n# a comment\ndef f(a):\n    """Say\n    why."""\n    return (\n1)\n'
    (tmp_path / "small.py").write_text(source)

    done = measure(tmp_path)

    assert done.stdout == f"{tmp_path}: 3 code lines, largest file small.py\n"
