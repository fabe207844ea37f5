import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import psutil
import pytest

from appliance.errors import SourceError
from appliance.manifest.source import parse_source
from appliance.registry.inspection import inspect_directory
from appliance.registry.store import ModelStore
from tests.appliance_server import wait_until
from tests.chat.tiny import write_byte_pair_model, write_model
from tests.engine.convert.tiny_gguf import TinyLlama
from tests.registry.fake_hub import REPO, FakeHub, fake_hub, model_files
from tests.registry.ground import (
    CONFIG,
    MODEL,
    NAME,
    hub_store,
    materialise,
    shelf_store,
    start,
    write_wheel,
)

pytestmark = pytest.mark.slow

SOURCE = f"hf:{REPO}@v1"


@pytest.fixture
def stalling_hub() -> Iterator[FakeHub]:
    """A hub that sends half of the weights and then nothing until `stall` is set."""
    with fake_hub(model_files(25_000_000)) as hub:
        hub.drop_after_bytes = 15_000_000
        hub.stall = Event()
        yield hub


def fetch_children(parent: int | None = None) -> list[psutil.Process]:
    children = psutil.Process(parent).children(recursive=True)
    return [child for child in children if "appliance.registry.fetch" in child.cmdline()]


async def kill_in_the_middle(
    store: ModelStore, hub: FakeHub, state_dir: Path | None = None, after: str = ""
) -> None:
    """Kill the fetch child in the middle of a file, once the file `after` is whole."""
    task = asyncio.create_task(start(store, SOURCE))
    assert await asyncio.to_thread(hub.stalled.wait, 30)
    if state_dir is not None:
        pattern = f"downloads/*/fetched.partial/{after}"
        wait_until(lambda: list(state_dir.glob(pattern)), what="a whole file")
    for child in fetch_children():
        child.kill()
    with pytest.raises(SourceError, match="signal 9") as caught:
        await task
    assert caught.value.retryable


def recover(hub: FakeHub) -> None:
    hub.drop_after_bytes = None
    assert hub.stall is not None
    hub.stall.set()


def test_path_source_is_the_folder_itself(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "config.json").write_bytes(CONFIG)

    found = materialise(shelf_store(tmp_path, tmp_path), "path:model", tmp_path)

    assert found == folder


def test_path_source_completes_a_copy_of_a_folder_without_tokenizer_json(tmp_path: Path) -> None:
    folder = write_byte_pair_model(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"weights")
    before = sorted(folder.iterdir())
    store = shelf_store(tmp_path / "state", tmp_path)

    found = materialise(store, f"path:{folder}")

    assert sorted(folder.iterdir()) == before
    assert (found / "tokenizer.json").is_file()
    assert (found / "model.safetensors").resolve() == folder / "model.safetensors"
    assert store.find_cached(parse_source(f"path:{folder}"), folder=tmp_path) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("path:absent", "no such file or folder"),
        ("path:empty", "no config.json"),
        ("path:note.txt", "model folder or a .gguf file"),
        ("path:broken.gguf", "GGUF"),
        ("path:bare", "no tokenizer.model or vocab.json with merges.txt"),
        (f"path:{'n' * 300}.gguf", "too long"),
        (f"scripted:{'n' * 300}", "too long"),
        ("scripted:absent.yaml", "no such script file"),
    ],
)
def test_path_source_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_bytes(CONFIG)
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "broken.gguf").write_text("hello")

    with pytest.raises(SourceError, match=said) as caught:
        materialise(shelf_store(tmp_path, tmp_path), text, tmp_path)

    assert not caught.value.retryable


def test_path_source_converts_a_gguf_file_once(tmp_path: Path) -> None:
    TinyLlama().write(tmp_path / "tiny.gguf")
    store = shelf_store(tmp_path, tmp_path)
    source = parse_source("path:tiny.gguf")

    first = materialise(store, str(source), tmp_path)

    assert inspect_directory(first).dtypes.keys() == {"F32"}
    assert store.find_cached(source, folder=tmp_path) == first


def test_path_source_converts_the_same_content_once_whatever_its_date_and_name(
    tmp_path: Path,
) -> None:
    path = TinyLlama().write(tmp_path / "tiny.gguf")
    store = shelf_store(tmp_path, tmp_path)
    first = materialise(store, "path:tiny.gguf", tmp_path)
    os.utime(path, ns=(1, 1))
    shutil.copy(path, tmp_path / "twin.gguf")

    found = {materialise(store, f"path:{name}.gguf", tmp_path) for name in ("tiny", "twin")}

    assert found == {first}
    assert list((tmp_path / "models").iterdir()) == [first]


def test_path_source_converts_changed_content_again(tmp_path: Path) -> None:
    store = shelf_store(tmp_path, tmp_path)
    found = set()

    for is_tied in (True, False):
        TinyLlama(is_tied=is_tied).write(tmp_path / "tiny.gguf")
        found.add(materialise(store, "path:tiny.gguf", tmp_path))

    assert len(found) == 2


def test_wheel_source_converts_its_gguf_file_and_keeps_no_copy(tmp_path: Path) -> None:
    gguf = TinyLlama().write(tmp_path / "tiny.gguf").read_bytes()
    write_wheel(tmp_path / "shelf", {"box/tiny.gguf": gguf})

    found = materialise(
        shelf_store(tmp_path, tmp_path / "shelf"), f"wheel:{NAME}==1.0/box/tiny.gguf"
    )

    assert inspect_directory(found).model_type == "llama"
    assert not [path for path in (tmp_path / "downloads").iterdir() if path.suffix != ".lock"]


def test_scripted_source_is_the_script_file(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("[]")

    found = materialise(shelf_store(tmp_path, tmp_path), "scripted:script.yaml", tmp_path)

    assert found == tmp_path / "script.yaml"


def test_find_cached_knows_only_what_is_ready(tmp_path: Path) -> None:
    write_wheel(tmp_path / "shelf", MODEL)
    store = shelf_store(tmp_path, tmp_path / "shelf")
    source = parse_source(f"wheel:{NAME}==1.0/model")
    before = store.find_cached(source, folder=tmp_path)

    ready = materialise(store, str(source))

    assert before is None
    assert store.find_cached(source, folder=tmp_path) == ready


def test_materialise_downloads_once_for_concurrent_calls(tmp_path: Path) -> None:
    async def twice() -> list[Path]:
        stores = [hub_store(tmp_path, hub.endpoint) for _ in range(2)]
        return await asyncio.gather(*(start(store, SOURCE) for store in stores))

    with fake_hub() as hub:
        first, second = asyncio.run(twice())

    assert first == second
    assert hub.downloads("model.safetensors") == 1


def test_materialise_kills_its_child_when_cancelled(tmp_path: Path, stalling_hub: FakeHub) -> None:
    async def cancel_in_the_middle() -> list[psutil.Process]:
        task = asyncio.create_task(start(hub_store(tmp_path, stalling_hub.endpoint), SOURCE))
        assert await asyncio.to_thread(stalling_hub.stalled.wait, 30)
        children = fetch_children()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return children

    children = asyncio.run(cancel_in_the_middle())

    assert len(children) == 1
    assert not children[0].is_running()


def test_materialise_survives_a_killed_child(tmp_path: Path, stalling_hub: FakeHub) -> None:
    store = hub_store(tmp_path, stalling_hub.endpoint)
    asyncio.run(kill_in_the_middle(store, stalling_hub))
    half = store.find_cached(parse_source(SOURCE), folder=tmp_path)
    recover(stalling_hub)

    found = materialise(store, SOURCE)

    assert half is None
    assert (found / "model.safetensors").stat().st_size > 25_000_000


def test_materialise_keeps_the_whole_files_of_a_killed_child(tmp_path: Path) -> None:
    whole, half = "small.safetensors", "large.safetensors"
    files = {"config.json": CONFIG, "tokenizer.json": b"{}", whole: bytes(10), half: bytes(20_000)}
    with fake_hub(files) as hub:
        hub.drop_after_bytes, hub.stall = 10_000, Event()
        store = hub_store(tmp_path, hub.endpoint)

        asyncio.run(kill_in_the_middle(store, hub, tmp_path, whole))
        recover(hub)
        found = materialise(store, SOURCE)

    assert (found / half).read_bytes() == files[half]
    assert (hub.downloads(whole), hub.downloads(half)) == (1, 2)


def test_fetch_child_ends_with_its_parent(tmp_path: Path, stalling_hub: FakeHub) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from tests.registry.ground import *;"
        "materialise(hub_store(Path(sys.argv[1]), sys.argv[2]), sys.argv[3])"
    )
    command = [sys.executable, "-c", code, str(tmp_path), stalling_hub.endpoint, SOURCE]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": "."}) as parent:
        assert stalling_hub.stalled.wait(30)
        children = fetch_children(parent.pid)

        parent.send_signal(signal.SIGKILL)

    assert len(children) == 1
    wait_until(lambda: not children[0].is_running(), what="the fetch child ends")


def test_materialise_reports_bytes(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []

    async def run() -> None:
        store = hub_store(tmp_path, hub.endpoint)
        await store.materialise(
            parse_source(SOURCE), folder=tmp_path, on_progress=lambda *it: seen.append(it)
        )

    with fake_hub() as hub:
        asyncio.run(run())

    total = sum(
        len(body)
        for name, body in model_files().items()
        if "/" not in name and not name.endswith(".bin")
    )
    assert ("download", total, total) in seen
    assert {phase for phase, _, _ in seen} == {"download", "verify"}


def test_materialise_refuses_a_full_disk_before_downloading(tmp_path: Path) -> None:
    files = model_files()
    with fake_hub(files) as hub:
        hub.sizes["model.safetensors"] = 2**60
        with pytest.raises(SourceError, match="not enough disk space") as caught:
            materialise(hub_store(tmp_path, hub.endpoint), SOURCE)

    assert caught.value.retryable
    assert hub.downloads("model.safetensors") == 0


@pytest.mark.parametrize(("name", "digits"), [("model.safetensors", 64), ("tokenizer.json", 40)])
def test_materialise_refuses_files_that_arrive_damaged(
    tmp_path: Path, name: str, digits: int
) -> None:
    with fake_hub() as hub:
        hub.digests[name] = "0" * digits
        with pytest.raises(SourceError, match=f"'{name}' arrived damaged") as caught:
            materialise(hub_store(tmp_path, hub.endpoint), SOURCE)

    assert caught.value.retryable
    assert not list((tmp_path / "models").iterdir())
