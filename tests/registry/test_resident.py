"""A resident keeps its model in memory, whatever its files and worker do."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.chat.client import TextProcess
from appliance.errors import ApplianceError, ModelNotReady, SourceError
from appliance.manifest.source import Source
from appliance.manifest.spec import ModelSpec
from appliance.registry.phase import Phase
from appliance.registry.resident import Overseer, Resident
from appliance.registry.surroundings import Surroundings
from appliance.telemetry.metrics import Metrics
from tests.registry.ease import AT_EASE

pytestmark = pytest.mark.slow


class ShelfStore:
    """A Store that raises its errors one after another, then gives its path."""

    def __init__(self, path: Path, *errors: Exception) -> None:
        self.num_asked = 0
        self._path = path
        self._errors = list(errors)

    async def materialise(
        self, source: Source, *, folder: Path, on_progress: Callable[[str, int, int], None]
    ) -> Path:
        self.num_asked += 1
        if self._errors:
            raise self._errors.pop(0)
        return self._path

    def find_cached(self, source: Source, *, folder: Path) -> Path | None:
        return self._path


def make_resident(store: ShelfStore) -> Resident:
    spec = ModelSpec(name="chat", source="scripted:script.yaml")
    around = Surroundings(
        store=store,
        text=TextProcess(),
        metrics=Metrics(),
        folder=Path(),
        on_progress=lambda *_: None,
        **AT_EASE,
    )
    return Resident(spec, around, Overseer(lambda: None, accept))


async def accept(resident: Resident) -> str | None:
    return None


@pytest.mark.parametrize(
    "error",
    [
        PermissionError("no"),
        ValueError("odd"),
        ApplianceError("text process"),
        SourceError("hf:a/b", "the hub does not answer", retryable=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_resident_tries_again_after_any_failure(tmp_path: Path, error: Exception) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("[]\n")

    async def main() -> None:
        resident = make_resident(ShelfStore(script, error))
        resident.load()
        with pytest.raises(ModelNotReady) as refusal:
            await resident.ready()
        assert resident.phase is Phase.FAILED
        assert 0 < refusal.value.retry_after_seconds <= 1.0
        while resident.retry_in_seconds is not None:
            await asyncio.sleep(0.05)

        loaded = await resident.ready()

        assert loaded.engine.pid is not None
        await resident.unload()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_patient_caller_waits_out_one_back_off(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("[]\n")

    async def main(*errors: Exception) -> None:
        resident = make_resident(ShelfStore(script, *errors))
        resident.load()
        with pytest.raises(ModelNotReady):
            await resident.ready()
        try:
            loaded = await resident.ready(is_patient=True)
            assert loaded.engine.pid is not None
        finally:
            await resident.unload()

    asyncio.run(asyncio.wait_for(main(OSError("busy")), 30))
    with pytest.raises(ModelNotReady):
        asyncio.run(asyncio.wait_for(main(OSError("busy"), OSError("busy")), 30))


def test_resident_asks_once_when_only_a_new_manifest_helps(tmp_path: Path) -> None:
    store = ShelfStore(tmp_path, SourceError("path:x", "there is no such folder"))

    async def main() -> None:
        resident = make_resident(store)
        resident.load()
        for _ in range(5):
            with pytest.raises(ModelNotReady):
                await resident.ready()

        assert resident.retry_in_seconds is None
        assert resident.reason == "path:x: there is no such folder"
        await resident.unload()

    asyncio.run(asyncio.wait_for(main(), 10))
    assert store.num_asked == 1


def test_unload_ends_a_wait_for_the_model(tmp_path: Path) -> None:
    class StuckStore(ShelfStore):
        async def materialise(
            self, source: Source, *, folder: Path, on_progress: Callable[[str, int, int], None]
        ) -> Path:
            await asyncio.Event().wait()
            raise AssertionError

    async def main() -> None:
        resident = make_resident(StuckStore(tmp_path))
        resident.load()
        waiting = asyncio.create_task(resident.ready())
        while resident.phase is not Phase.DOWNLOADING:
            await asyncio.sleep(0)

        await resident.unload()

        with pytest.raises(ModelNotReady):
            await waiting

    asyncio.run(asyncio.wait_for(main(), 10))
