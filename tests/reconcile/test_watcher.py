"""Real files, saved in every way editors and mounts know; nothing waits for a fixed time."""

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from appliance.reconcile.watcher import Watcher, link_folders

pytestmark = pytest.mark.slow

QUIET = 0.03
NEVER = 3600.0
Calls = asyncio.Queue[str | None]
Save = Callable[[Path, str], object]


def content(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


@asynccontextmanager
async def watching(file: Path, quiet: float = QUIET, **options: float) -> AsyncIterator[Calls]:
    """Yield what the file held at each call."""
    calls: Calls = asyncio.Queue()
    settings = {"is_polling": False, "poll_seconds": NEVER} | options
    watcher = Watcher(
        file,
        lambda: calls.put_nowait(content(file)),
        quiet,
        is_polling=bool(settings["is_polling"]),
        poll_seconds=settings["poll_seconds"],
    )
    running = asyncio.create_task(watcher.run())
    try:
        yield calls
    finally:
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()


async def call(calls: Calls) -> str | None:
    return await asyncio.wait_for(calls.get(), 10)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def save_by_rename(file: Path, text: str) -> None:
    draft = file.with_name("4913")
    draft.write_text(text)
    draft.replace(file)


def save_with_backup(file: Path, text: str) -> None:
    file.rename(file.with_name("backup~"))
    file.write_text(text)


def save_with_sed(file: Path, text: str) -> None:
    subprocess.run(["sed", "-i.bak", "-e", f"s/.*/{text}/", str(file)], check=True)


def save_through_shell(file: Path, text: str) -> None:
    subprocess.run(["sh", "-c", f"printf {text} > '{file}'"], check=True)


def swap_link(link: Path, target: str) -> None:
    draft = link.with_name("..draft")
    draft.symlink_to(target)
    draft.replace(link)


SAVES: list[Save] = [
    Path.write_text,
    save_by_rename,
    save_with_backup,
    save_with_sed,
    save_through_shell,
]
MODES = [
    pytest.param({}, id="notified"),
    pytest.param({"is_polling": True, "poll_seconds": 0.02}, id="polled"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "manifest.yaml"
    file.write_text("one")
    return file


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)
def test_watcher_notices_every_save(file: Path, save: Save, mode: dict[str, float]) -> None:
    async def scenario() -> None:
        async with watching(file, **mode) as calls:
            for text in ("two", "three", "four"):
                save(file, text)
                assert (await call(calls) or "").strip() == text
            assert calls.empty()

    run(scenario)


@pytest.mark.parametrize("mode", MODES)
def test_watcher_notices_that_the_file_went_and_came_back(
    file: Path, mode: dict[str, float]
) -> None:
    async def scenario() -> None:
        async with watching(file, **mode) as calls:
            for _ in range(2):
                file.unlink()
                assert await call(calls) is None
                file.write_text("one")
                assert await call(calls) == "one"

    run(scenario)


@pytest.mark.parametrize("mode", MODES)
def test_watcher_notices_that_the_folder_went_and_came_back(
    tmp_path: Path, mode: dict[str, float]
) -> None:
    folder = tmp_path / "a" / "b"
    file = folder / "manifest.yaml"

    async def scenario() -> None:
        async with watching(file, **mode) as calls:
            for text in ("one", "two"):
                folder.mkdir(parents=True)
                file.write_text(text)
                assert await call(calls) == text
                shutil.rmtree(tmp_path / "a")
                assert await call(calls) is None

    run(scenario)


@pytest.mark.parametrize("mode", MODES)
def test_watcher_notices_a_config_map_that_is_swapped(
    tmp_path: Path, mode: dict[str, float]
) -> None:
    file = tmp_path / "manifest.yaml"

    def publish(version: str) -> None:
        (tmp_path / version).mkdir()
        (tmp_path / version / file.name).write_text(version)
        swap_link(tmp_path / "..data", version)

    publish("..1")
    file.symlink_to(f"..data/{file.name}")

    async def scenario() -> None:
        async with watching(file, **mode) as calls:
            for version in range(2, 5):
                publish(f"..{version}")
                shutil.rmtree(tmp_path / f"..{version - 1}")
                assert await call(calls) == f"..{version}"
            (tmp_path / "..4" / file.name).write_text("in place")
            assert await call(calls) == "in place"

    run(scenario)


@pytest.mark.parametrize("mode", MODES)
def test_watcher_follows_links_into_other_folders(tmp_path: Path, mode: dict[str, float]) -> None:
    for name in "abcd":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"{name} 1")
    link, middle = tmp_path / "a" / "link", tmp_path / "b" / "link"
    link.symlink_to("../b/link")
    middle.symlink_to(tmp_path / "c" / "file")

    async def scenario() -> None:
        async with watching(link, **mode) as calls:
            save_by_rename(tmp_path / "c" / "file", "c 2")
            assert await call(calls) == "c 2"
            swap_link(middle, "../d/file")
            assert await call(calls) == "d 1"
            save_by_rename(tmp_path / "d" / "file", "d 2")
            assert await call(calls) == "d 2"
            swap_link(link, "file")
            assert await call(calls) == "a 1"

    run(scenario)


def test_watcher_follows_a_link_to_an_equal_file(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("equal")
    link = tmp_path / "link"
    link.symlink_to("a/file")

    async def scenario() -> None:
        async with watching(link) as calls, watching(tmp_path / "after", 0.2) as after:
            swap_link(link, "b/file")
            (tmp_path / "after").touch()
            await call(after)
            assert calls.empty()
            (tmp_path / "b" / "file").write_text("other")
            assert await call(calls) == "other"

    run(scenario)


@pytest.mark.parametrize("mode", MODES)
def test_watcher_says_nothing_when_the_content_is_the_same(
    file: Path, mode: dict[str, float]
) -> None:
    after = file.with_name("after")

    async def scenario() -> None:
        async with watching(file, **mode) as calls, watching(after, 0.2, **mode) as afterwards:
            file.touch()
            file.chmod(0o600)
            file.write_text("one")
            save_by_rename(file, "one")
            after.touch()
            await call(afterwards)
            assert calls.empty()

    run(scenario)


@pytest.mark.parametrize("mode", MODES)
def test_watcher_calls_a_burst_a_few_times(file: Path, mode: dict[str, float]) -> None:
    async def scenario() -> None:
        async with watching(file, quiet=0.3, **mode) as calls:
            for number in range(50):
                await asyncio.to_thread(file.write_text, f"text {number}")
            num_calls = 1
            while await call(calls) != "text 49":
                num_calls += 1
            assert num_calls <= 5
            assert calls.empty()

    run(scenario)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_watcher_never_misses_the_last_content(
    file: Path, mode: dict[str, float], seed: int
) -> None:
    luck = random.Random(seed)
    saves: list[Save] = [Path.write_text, save_by_rename, save_with_backup]

    async def scenario() -> None:
        async with watching(file, quiet=0.01, **mode) as calls:
            for turn in range(12):
                for number in range(luck.randrange(1, 5)):
                    await asyncio.to_thread(luck.choice(saves), file, f"{turn}.{number}")
                last = content(file)
                while await call(calls) != last:
                    pass

    run(scenario)


def test_watcher_outlives_its_notifications(file: Path) -> None:
    async def scenario() -> None:
        async with watching(file, poll_seconds=0.05) as calls:
            file.write_text("two")
            assert await call(calls) == "two"
            # No text: notifications end in an error. Some file systems refuse such a name.
            with suppress(OSError):
                Path(os.fsdecode(bytes(file.parent) + b"/\xff")).touch()
            file.write_text("three")
            assert await call(calls) == "three"
            save_by_rename(file, "four")
            assert await call(calls) == "four"

    run(scenario)


def test_watcher_sees_what_changed_before_it_ran(file: Path) -> None:
    async def scenario() -> None:
        called = asyncio.Event()
        watcher = Watcher(file, called.set, QUIET, poll_seconds=NEVER)
        file.write_text("two")
        running = asyncio.create_task(watcher.run())
        await asyncio.wait_for(called.wait(), 10)
        running.cancel()

    run(scenario)


def test_link_folders_are_those_of_every_link_and_of_the_file(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "real" / "..1").mkdir(parents=True)
    (root / "real" / "..data").symlink_to("..1")
    (root / "real" / "file").symlink_to("..data/file")
    (root / "alias").symlink_to("real")

    folders = link_folders(root / "alias" / "file")

    assert folders == (root, root / "real", root / "real" / "..1")


@pytest.mark.parametrize("target", ["loop", "../loop/loop", "/nowhere/at/all"])
def test_link_folders_of_a_link_to_nothing_are_those_that_exist(
    tmp_path: Path, target: str
) -> None:
    root = tmp_path.resolve()
    (root / "loop").symlink_to(target)

    folders = link_folders(root / "loop")

    assert root in folders
    assert all(folder.is_dir() for folder in folders)
    assert Path(os.sep) not in folders
