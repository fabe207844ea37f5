"""Check what the conversion child says and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.convert.tiny_gguf import TinyLlama

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "appliance.engine.convert"]


def run(*args: object) -> tuple[int, list[dict[str, object]], str]:
    done = subprocess.run(
        [*COMMAND, *map(str, args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_child_writes_progress_lines_and_the_folder(tmp_path: Path) -> None:
    path = TinyLlama().write(tmp_path / "tiny.gguf")

    code, lines, complaints = run(path, tmp_path / "mlx", "--weights", "float32")

    assert (code, complaints) == (0, "")
    assert lines[-1] == {
        "phase": "convert",
        "done": lines[-1]["total"],
        "total": lines[-1]["total"],
    }
    assert (tmp_path / "mlx" / "tokenizer.json").exists()


@pytest.mark.parametrize("length", [0, 3, 100, 5000, 50_000])
def test_child_says_in_one_line_why_a_file_is_refused(length: int, tmp_path: Path) -> None:
    path = TinyLlama().write(tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes()[:length])

    code, lines, complaints = run(path, tmp_path / "mlx", "--weights", "packed")

    assert (code, complaints) == (1, "")
    assert [line["retryable"] for line in lines] == [False]
    assert not list(tmp_path.glob("mlx*"))


def test_child_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    code, lines, complaints = run(tmp_path / "none.gguf", tmp_path / "mlx", "--weights", "packed")

    assert (code, complaints) == (1, "")
    assert "cannot be read" in str(lines[0]["error"])


def test_child_says_when_it_cannot_write(tmp_path: Path) -> None:
    path = TinyLlama().write(tmp_path / "tiny.gguf")

    code, lines, complaints = run(path, path / "mlx", "--weights", "float32")

    assert (code, complaints) == (1, "")
    assert "Not a directory" in str(lines[0]["error"])


def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    never_written = tmp_path / "pipe.gguf"
    os.mkfifo(never_written)
    child = subprocess.Popen(
        [*COMMAND, never_written, tmp_path / "mlx", "--weights", "packed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    said, _ = child.communicate(timeout=30)

    assert (child.returncode, said) == (1, b"")
