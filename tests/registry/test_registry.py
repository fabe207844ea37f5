"""Leases are counted as running or waiting, and no more are given than there is room for."""

import asyncio
from pathlib import Path

import pytest

from appliance.chat.client import TextProcess
from appliance.errors import ModelNotFound, ModelNotReady, QueueFull
from appliance.manifest.spec import EngineSpec, ModelLimitsSpec, ModelSpec, ServerSpec
from appliance.registry.registry import Registry
from appliance.registry.resident import engine_settings
from appliance.registry.store import ModelStore
from appliance.registry.surroundings import Surroundings
from appliance.telemetry.metrics import Metrics
from tests.registry.ease import AT_EASE


def make_registry(tmp_path: Path, engine: EngineSpec) -> tuple[Registry, Metrics]:
    """Return a registry of one model, which nothing loads, with a queue of 2."""
    metrics = Metrics()
    around = Surroundings(
        store=ModelStore(tmp_path),
        text=TextProcess(),
        metrics=metrics,
        folder=tmp_path,
        on_progress=lambda *_: None,
        **AT_EASE,
    )
    limits = ModelLimitsSpec(queue=2)
    spec = ModelSpec(name="chat", source="scripted:script.yaml", engine=engine, limits=limits)
    registry = Registry(around)
    registry.serve((spec,), ServerSpec())
    return registry, metrics


def gauges(registry: Registry, metrics: Metrics) -> tuple[float | None, ...]:
    registry.refresh_gauges(metrics)
    names = ("vllm_mlx_requests_running", "vllm_mlx_requests_waiting")
    return tuple(metrics.registry.get_sample_value(name, {"model": "chat"}) for name in names)


def test_lease_waits_until_it_is_marked_as_running(tmp_path: Path) -> None:
    registry, metrics = make_registry(tmp_path, EngineSpec())

    first, _ = registry.lease("chat"), registry.lease("chat")
    assert gauges(registry, metrics) == (0, 2)
    first.mark_running(True)
    first.mark_running(True)
    assert gauges(registry, metrics) == (1, 1)
    first.mark_running(False)
    assert gauges(registry, metrics) == (0, 2)


def test_released_lease_counts_nowhere(tmp_path: Path) -> None:
    registry, metrics = make_registry(tmp_path, EngineSpec())
    lease = registry.lease("chat")
    lease.mark_running(True)

    lease.release()
    lease.release()
    lease.mark_running(True)

    assert gauges(registry, metrics) == (0, 0)


@pytest.mark.parametrize(
    ("engine", "most"),
    [
        pytest.param(EngineSpec(max_sequences=3), 5, id="three slots and the queue"),
        pytest.param(EngineSpec(kind="simple", max_sequences=3), 3, id="one slot and the queue"),
    ],
)
def test_leases_end_where_slots_and_queue_do(tmp_path: Path, engine: EngineSpec, most: int) -> None:
    registry, _ = make_registry(tmp_path, engine)
    leases = [registry.lease("chat") for _ in range(most)]

    with pytest.raises(QueueFull):
        registry.lease("chat")
    leases[0].release()

    assert registry.lease("chat").resident.num_leases == most


def test_worker_of_a_simple_engine_has_one_slot() -> None:
    engine = EngineSpec(kind="simple", max_sequences=8)

    settings = engine_settings(ModelSpec(name="chat", source="path:/m", engine=engine))

    assert (settings.kind, settings.max_sequences) == ("simple", 1)


def test_every_name_is_found_and_leads_to_one_copy(tmp_path: Path) -> None:
    registry, _ = make_registry(tmp_path, EngineSpec())
    base = ModelSpec(name="chat", aliases=("org/chat",), source="scripted:script.yaml")
    fast = base.model_copy(update={"name": "fast", "aliases": ("quick",), "like": "chat"})

    registry.serve((base, fast), ServerSpec())

    assert registry.names() == ("chat", "org/chat", "fast", "quick")
    assert [registry.find(name).name for name in registry.names()] == [
        "chat",
        "chat",
        "fast",
        "fast",
    ]
    assert len({registry.find(name).resident for name in registry.names()}) == 1
    assert [status.profiles for status in registry.statuses()] == [("fast",)]


def test_name_that_moves_to_another_model_leads_there_at_once(tmp_path: Path) -> None:
    registry, _ = make_registry(tmp_path, EngineSpec())
    other = ModelSpec(name="other", aliases=("chat",), source="scripted:script.yaml")

    registry.serve((other,), ServerSpec())

    assert registry.find("chat").name == "other"
    assert [each.name for each in registry.observed()] == ["other"]


def test_models_of_another_revision_are_told_by_near_names(tmp_path: Path) -> None:
    registry, metrics = make_registry(tmp_path, EngineSpec())

    registry.serve((ModelSpec(name="chat-2", source="scripted:script.yaml"),), ServerSpec())

    with pytest.raises(ModelNotFound) as refusal:
        registry.lease("chat")
    assert refusal.value.suggestion == "chat-2"
    assert b'model="chat"' not in metrics.exposition()


def test_leased_name_that_is_removed_is_counted_to_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        registry, metrics = make_registry(tmp_path, EngineSpec())
        lease = registry.lease("chat")
        registry.serve((), ServerSpec())
        assert gauges(registry, metrics) == (0, 1)

        lease.release()
        await asyncio.sleep(0)

        assert b'model="chat"' not in metrics.exposition()
        with pytest.raises(ModelNotReady):
            await lease.ready()

    asyncio.run(main())
