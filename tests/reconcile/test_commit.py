"""A manifest is replaced whole, at whatever point the writer ends."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.errors import ManifestReadOnly
from appliance.reconcile.commit import commit_steps, is_writable, write_manifest

STEPS = ("created", "written", "synced", "renamed", "kept")
OLD, NEW = "old: 1  # ä\n" * 1000, "new: 2\n" * 2000

# Ends at once after the step, without a chance to tidy up.
STOP_AFTER = """
import os, sys
from pathlib import Path
from appliance.reconcile.commit import commit_steps
for step in commit_steps(Path(sys.argv[1]), Path(sys.argv[2]).read_text()):
    if step == sys.argv[3]:
        os._exit(9)
"""
ALTERNATE = """
import sys
from itertools import cycle
from pathlib import Path
from appliance.reconcile.commit import commit_steps
texts = [Path(name).read_text() for name in sys.argv[2:]]
for text in cycle(texts):
    for step in commit_steps(Path(sys.argv[1]), text):
        print(step, flush=True)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def child(script: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text(OLD)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    texts = (tmp_path / "new", tmp_path / "old")
    for path, text in zip(texts, (NEW, OLD), strict=True):
        path.write_text(text)
    return texts


def test_write_replaces_the_content_and_keeps_the_mode(folder: Path) -> None:
    file = folder / "file"
    file.chmod(0o640)

    write_manifest(file, NEW)

    assert file.read_text() == NEW
    assert file.stat().st_mode & 0o7777 == 0o640
    assert names(folder) == ["file"]


def test_write_makes_a_new_file_private(folder: Path) -> None:
    write_manifest(folder / "new", "ä\r\n")

    assert (folder / "new").read_bytes() == b"\xc3\xa4\r\n"
    assert (folder / "new").stat().st_mode & 0o777 == 0o600


def test_write_follows_links_and_leaves_them(folder: Path, tmp_path: Path) -> None:
    link, middle = tmp_path / "link", tmp_path / "middle"
    link.symlink_to("middle")
    middle.symlink_to("folder/file")

    write_manifest(link, NEW)

    assert link.is_symlink()
    assert middle.is_symlink()
    assert (folder / "file").read_text() == NEW
    assert not (folder / "file").is_symlink()


@pytest.mark.parametrize("step", STEPS)
def test_write_ended_after_a_step_leaves_one_text_whole(
    folder: Path, texts: tuple[Path, Path], step: str
) -> None:
    writer = child(STOP_AFTER, folder / "file", texts[0], step)
    writer.communicate()

    assert writer.returncode == 9

    is_new = STEPS.index(step) >= STEPS.index("renamed")
    assert (folder / "file").read_text() == (NEW if is_new else OLD)
    assert len(names(folder)) == (1 if is_new else 2)

    write_manifest(folder / "file", "later")

    assert (folder / "file").read_text() == "later"
    assert names(folder) == ["file"]


def test_write_has_no_other_steps(folder: Path) -> None:
    assert tuple(commit_steps(folder / "file", NEW)) == STEPS


@pytest.mark.slow
def test_write_killed_anywhere_leaves_one_text_whole(
    folder: Path, texts: tuple[Path, Path]
) -> None:
    for num_steps in range(1, 21):
        writer = child(ALTERNATE, folder / "file", *texts)
        assert writer.stdout is not None
        for _ in range(num_steps):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        writer.communicate()

        assert (folder / "file").read_text() in (OLD, NEW)
        assert len(names(folder)) <= 2


@pytest.mark.parametrize("mode", [0o444, 0o400])
def test_write_refuses_a_read_only_file(folder: Path, mode: int) -> None:
    file = folder / "file"
    file.chmod(mode)

    assert not is_writable(file)
    with pytest.raises(ManifestReadOnly, match="read-only") as caught:
        write_manifest(file, NEW)
    assert caught.value.file == str(file)
    assert file.read_text() == OLD


@pytest.mark.parametrize("place", ["missing/file", "loop", "file/below"])
def test_write_refuses_a_place_that_cannot_be(folder: Path, place: str) -> None:
    (folder / "loop").symlink_to("loop")
    before = names(folder)

    with pytest.raises(ManifestReadOnly):
        write_manifest(folder / place, NEW)
    assert not is_writable(folder / place)
    assert names(folder) == before


def test_write_that_fails_leaves_nothing_behind(folder: Path) -> None:
    target = folder / "target"
    target.mkdir()

    with pytest.raises(ManifestReadOnly, match="directory"):
        write_manifest(target, NEW)
    assert names(folder) == ["file", "target"]


def test_is_writable_says_yes_to_a_file_and_a_file_to_be(folder: Path) -> None:
    assert is_writable(folder / "file")
    assert is_writable(folder / "new")
