"""An engine whose test says what comes, and a model that it serves."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from appliance.chat.client import TextProcess
from appliance.chat.request import ChatRequest, Message
from appliance.engine.interface import EngineStream
from appliance.engine.wire import Accepted, Submit
from appliance.errors import WorkerDied
from appliance.manifest.source import Source
from appliance.manifest.spec import ChatSpec, LimitsSpec, ModelSpec, ServerSpec
from appliance.pipeline.generation import Generation
from appliance.pipeline.pipeline import Pipeline
from appliance.pipeline.sender import RequestIds, Sender
from appliance.registry.registry import Registry
from appliance.registry.resident import Loaded
from appliance.registry.surroundings import Surroundings
from appliance.telemetry.metrics import Metrics
from tests.registry.ease import AT_EASE


@dataclass
class FakeEngine:
    """An Engine that accepts at once and keeps what it was handed; `streams[-1]` is the latest."""

    submits: list[Submit] = field(default_factory=list)
    streams: list[EngineStream] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int | None:
        return None

    def submit(self, submit: Submit, stream: EngineStream | None = None) -> EngineStream:
        stream = stream or EngineStream()
        self.submits.append(submit)
        self.streams.append(stream)
        stream.accept(Accepted(submit.model, submit.id, 1))
        return stream

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    async def close(self) -> None:
        pass

    def handed(self) -> list[tuple[Submit, EngineStream]]:
        """Return everything that was submitted, with where its rows go."""
        return list(zip(self.submits, self.streams, strict=True))

    def die(self) -> None:
        """Lose what was submitted last; the model is back at once."""
        self.streams[-1].fail(WorkerDied("chat"))

    async def has(self, num_submits: int) -> None:
        """Wait until so many requests were handed over."""
        while len(self.submits) < num_submits:
            await asyncio.sleep(0)


class EmptyStore:
    """A Store that never has the files: the model is put into memory by the test."""

    async def materialise(
        self, source: Source, *, folder: Path, on_progress: Callable[[str, int, int], None]
    ) -> Path:
        await asyncio.Event().wait()
        raise AssertionError

    def find_cached(self, source: Source, *, folder: Path) -> Path | None:
        return None


@dataclass
class Stage:
    """A pipeline over one model, `chat`, that is in memory."""

    engine: FakeEngine
    registry: Registry
    pipeline: Pipeline
    metrics: Metrics

    def gauges(self) -> tuple[float | None, ...]:
        """Return how many requests run and how many wait."""
        self.registry.refresh_gauges(self.metrics)
        return self.value("requests_running"), self.value("requests_waiting")

    def value(self, name: str, **labels: str) -> float | None:
        labels |= {"model": "chat"}
        return self.metrics.registry.get_sample_value(f"vllm_mlx_{name}", labels)

    async def open(self, **fields: object) -> Generation:
        """Return a generation that the engine has accepted; `fields` are its ChatRequest's."""
        message = Message("user", "hi")
        fields = {"model": "chat", "messages": (message,)} | fields
        request = ChatRequest(**fields)  # type: ignore[arg-type]
        generation = self.pipeline.open(
            request, RequestIds(f"r{len(self.engine.submits)}", None, Sender())
        )
        generation.start()
        assert await generation.opened()
        return generation


def play(
    test: Callable[[Stage], Awaitable[None]],
    limits: LimitsSpec | None = None,
    chat: ChatSpec | None = None,
) -> None:
    """Run `test` with a stage of its own."""

    async def main() -> None:
        limits_spec, metrics, text = limits or LimitsSpec(), Metrics(), TextProcess()
        around = Surroundings(EmptyStore(), text, metrics, Path(), lambda *_: None, **AT_EASE)
        spec = ModelSpec(name="chat", source="scripted:script.yaml", chat=chat or ChatSpec())
        registry = Registry(around)
        registry.serve((spec,), ServerSpec(limits=limits_spec))
        engine = FakeEngine()
        registry.find("chat").resident.loaded = Loaded(engine, 1000, {})
        pipeline = Pipeline(registry, text, limits_spec, metrics)
        try:
            await test(Stage(engine, registry, pipeline, metrics))
        finally:
            await registry.stop()

    asyncio.run(asyncio.wait_for(main(), 20))
