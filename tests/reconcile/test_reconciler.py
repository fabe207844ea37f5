"""The reconciler survives what goes wrong, and never acts on what is not in force any more."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from appliance.errors import HistoryFailed, ManifestChanged, ManifestError
from appliance.manifest.load import LoadedManifest, load_manifest_text
from appliance.manifest.spec import ModelSpec, ServerSpec
from appliance.reconcile.desired import Forecasts
from appliance.reconcile.history import History
from appliance.reconcile.reconciler import Edit, Means, Reconciler
from appliance.reconcile.records import Records
from appliance.reconcile.source import ManifestFile
from appliance.registry.observed import ObservedModel
from appliance.registry.phase import ModelStatus, Phase
from appliance.telemetry.metrics import Metrics

GIB = 2**30
ADMIN = Edit("ops", "apply")
Forecaster = Callable[[ModelSpec], Awaitable[int | None]]


def _text(*models: str) -> str:
    return "version: 1\nmodels: [" + ", ".join(models) + "]\n"


def _model(name: str, *, preload: bool = True) -> str:
    residency = "residency: {preload: true}" if preload else "aliases: []"
    return f'{{name: {name}, source: "path:/{name}", {residency}}}'


class Recorder:
    """A registry that only notes what it is told, and takes a load for done at once."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.loaded: dict[str, tuple[ModelSpec, int]] = {}
        self._served: tuple[ModelSpec, ...] = ()

    def serve(self, models: tuple[ModelSpec, ...], server: ServerSpec) -> None:
        self._served = models

    def forget_failures(self, name: str | None = None) -> None:
        pass

    def load(self, name: str, spec: ModelSpec, promised_bytes: int) -> None:
        self.told.append(f"load {name} {promised_bytes // GIB}")
        self.loaded[name] = (spec, promised_bytes)

    def unload(self, name: str, reason: str) -> None:
        self.told.append(f"unload {name}")
        del self.loaded[name]

    def observed(self) -> tuple[ObservedModel, ...]:
        names = {spec.name: spec for spec in self._served}
        names |= {name: spec for name, (spec, _) in self.loaded.items()}
        return tuple(self._observe(spec) for spec in names.values())

    def statuses(self) -> tuple[ModelStatus, ...]:
        return tuple(_status(each) for each in self.observed())

    def _observe(self, spec: ModelSpec) -> ObservedModel:
        there = self.loaded.get(spec.name)
        return ObservedModel(
            name=spec.name,
            spec=spec,
            load_key=there[0].load_key() if there else None,
            incoming_key=None,
            failed_key=None,
            phase=Phase.READY if there else Phase.ABSENT,
            held_bytes=there[1] if there else 0,
            is_busy=False,
            reason="",
            idle_seconds=1.0,
            num_leases=0,
        )


def _status(observed: ObservedModel) -> ModelStatus:
    return ModelStatus(
        name=observed.name,
        phase=observed.phase,
        reason=observed.reason,
        seconds_in_phase=0.0,
        is_required=True,
        wish="must",
        desired_key=observed.spec.load_key(),
        observed_key=observed.load_key,
        incoming_key=None,
        failed_key=None,
        requests=0,
        restarts=0,
        worker_pid=None,
        context_tokens=None,
        memory_bytes=0,
        held_bytes=observed.held_bytes,
        retry_in_seconds=None,
        last_error=None,
        progress=None,
        profiles=(),
    )


class Scene:
    """A reconciler over a recorder, a real file and a real history, in one event loop."""

    def __init__(self, folder: Path, text: str, forecaster: Forecaster) -> None:
        self.file = folder / "vllm-mlx.yaml"
        self.file.write_text(text)
        self.registry = Recorder()
        self.records = Records(folder / "history.sqlite")
        loaded = load_manifest_text(text, name="m", folder=folder)
        self.registry.serve(loaded.manifest.models, loaded.manifest.server)
        self.metrics = Metrics()
        means = Means(
            registry=self.registry,  # type: ignore[arg-type]
            records=self.records,
            forecasts=Forecasts(forecaster),
            metrics=self.metrics,
            prepare=_prepare_nothing,
        )
        self.reconciler = Reconciler(ManifestFile(self.file, folder, lambda _: None), loaded, means)

    async def start(self) -> "asyncio.Task[None]":
        await self.records.open()
        await self.reconciler.start(20 * GIB)
        return asyncio.create_task(self.reconciler.run())

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.005)

    async def end(self, run: "asyncio.Task[None]") -> None:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await self.records.close()


async def _prepare_nothing(loaded: LoadedManifest) -> Callable[[], None]:
    return lambda: None


async def _four(spec: ModelSpec) -> int | None:
    return 4 * GIB


def test_pass_that_fails_is_not_the_last(tmp_path: Path) -> None:
    calls = []

    async def fail_once(spec: ModelSpec) -> int | None:
        calls.append(spec.name)
        if len(calls) == 1:
            raise AttributeError("odd")
        return 4 * GIB

    async def play() -> list[str]:
        scene = Scene(tmp_path, _text(_model("a")), fail_once)
        run = await scene.start()
        await scene.until(lambda: len(calls) == 1)
        scene.reconciler.poke()
        await scene.until(lambda: bool(scene.registry.told))
        await scene.end(run)
        return scene.registry.told

    assert asyncio.run(play()) == ["load a 4"]


def test_plan_of_an_older_revision_is_thrown_away(tmp_path: Path) -> None:
    async def play() -> list[str]:
        asked, free = asyncio.Event(), asyncio.Event()

        async def slow(spec: ModelSpec) -> int | None:
            if spec.name == "a":
                asked.set()
                await free.wait()
            return 4 * GIB

        scene = Scene(tmp_path, _text(_model("a")), slow)
        run = await scene.start()
        await asked.wait()
        await scene.reconciler.put(_text(_model("b")), ADMIN)
        free.set()
        await scene.until(lambda: scene.reconciler.board.status().models[0].name == "b")
        await scene.until(lambda: bool(scene.registry.told))
        await scene.end(run)
        return scene.registry.told

    assert asyncio.run(play()) == ["load b 4"]


def test_size_learned_late_is_promised_or_stops_the_load(tmp_path: Path) -> None:
    async def play(late: int) -> list[str]:
        sizes: list[int | None] = [None]

        async def forecast(spec: ModelSpec) -> int | None:
            return sizes[0] if spec.name == "a" else 4 * GIB

        scene = Scene(tmp_path, _text(_model("a"), _model("b")), forecast)
        run = await scene.start()
        await scene.until(lambda: len(scene.registry.told) == 2)
        sizes[0] = late
        scene.reconciler.poke()
        await scene.until(lambda: len(scene.registry.told) == 3)
        await scene.end(run)
        return scene.registry.told[2:]

    assert asyncio.run(play(8 * GIB)) == ["load a 8"]
    assert asyncio.run(play(19 * GIB)) == ["unload a"]


def test_put_checks_before_it_writes(tmp_path: Path) -> None:
    text = _text(_model("a"))

    async def play() -> None:
        scene = Scene(tmp_path, text, _four)
        run = await scene.start()
        with pytest.raises(ManifestError):
            await scene.reconciler.put("version: 2\n", ADMIN)
        with pytest.raises(ManifestChanged):
            await scene.reconciler.put(_text(), ADMIN, if_match="another")
        revisions = await scene.records(History.revisions)
        assert [each.how for each in revisions] == ["start"]
        await scene.end(run)

    asyncio.run(play())

    assert (tmp_path / "vllm-mlx.yaml").read_text() == text


def test_history_that_fails_loses_no_edit(tmp_path: Path) -> None:
    async def play() -> list[str]:
        scene = Scene(tmp_path, _text(_model("a")), _four)
        run = await scene.start()
        await scene.until(lambda: bool(scene.registry.told))
        await scene.records(History.close)
        scene.file.write_text(_text(_model("b")))
        scene.reconciler.poke_file()
        failed = {"result": "failed"}
        count = "vllm_mlx_reconcile_total"
        await scene.until(lambda: scene.metrics.registry.get_sample_value(count, failed) == 1)
        assert not run.done()
        with pytest.raises(HistoryFailed):
            await scene.records(History.revisions)
        await scene.records.open()
        scene.reconciler.poke()
        await scene.until(lambda: "load b 4" in scene.registry.told)
        await scene.end(run)
        return scene.registry.told

    assert asyncio.run(play()) == ["load a 4", "unload a", "load b 4"]
