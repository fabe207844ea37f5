"""A registry over real scripted workers, and requests that run through the real pipeline."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from appliance.chat.client import TextProcess
from appliance.chat.event import TextDelta
from appliance.chat.request import ChatRequest, Message
from appliance.manifest.spec import LimitsSpec, ModelSpec, ServerSpec
from appliance.pipeline.generation import Generation
from appliance.pipeline.pipeline import Pipeline, new_request_id
from appliance.pipeline.sender import RequestIds, Sender
from appliance.registry.lease import Lease
from appliance.registry.observed import ObservedModel
from appliance.registry.phase import Phase
from appliance.registry.registry import Registry
from appliance.registry.store import ModelStore
from appliance.registry.surroundings import Surroundings
from appliance.telemetry.metrics import Metrics

NUM_PIECES = 30
SCRIPT = """\
- {{match: "long", pieces: ["{word} "], piece_delay: 10ms, repeat: 30}}
- {{match: "endless", pieces: ["{word} "], piece_delay: 10ms, repeat: 100000}}
- {{match: ".", pieces: ["{word}"]}}
"""


def spec(script: str = "a", name: str = "chat", **fields: object) -> ModelSpec:
    """Return a model whose every answer is the word `script`; `absent` and `bad` do not load."""
    return ModelSpec.model_validate({"name": name, "source": f"scripted:{script}.yaml", **fields})


def profile(name: str, base: ModelSpec, **fields: object) -> ModelSpec:
    """Return a profile as the loader makes it."""
    return base.model_copy(update={"name": name, "like": base.name, "aliases": (), **fields})


@dataclass
class Stand:
    """What a test stands on. `flaw` is what every verification finds; `room` is what admits.

    `examine`, if set, is awaited with the lease of a copy that is to be verified.
    """

    registry: Registry = field(init=False)
    pipeline: Pipeline = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    flaw: str | None = None
    verified: list[str] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)
    room: Callable[[str], Awaitable[int]] | None = None
    examine: Callable[[Lease], Awaitable[None]] | None = None
    is_kept: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def build(self, folder: Path, text: TextProcess) -> None:
        for word in ("a", "b"):
            (folder / f"{word}.yaml").write_text(SCRIPT.format(word=word))
        (folder / "bad.yaml").write_text("{}\n")
        store, metrics = ModelStore(folder / "state"), self.metrics
        around = Surroundings(
            store,
            text,
            metrics,
            folder,
            lambda *_: None,
            verify=self._verify,
            admit=self._admit,
            wish_of=lambda spec: "must" if self.is_kept else spec.residency_wish,
        )
        self.registry = Registry(around)
        self.registry.on_change = self._note_change
        self.pipeline = Pipeline(self.registry, text, LimitsSpec(), metrics)

    def serve(self, *models: ModelSpec, timeout: float = 20.0) -> None:
        limits = LimitsSpec(request_timeout=timeout)
        self.registry.serve(models, ServerSpec(limits=limits))

    async def up(self, *models: ModelSpec) -> None:
        """Serve models and have them all in memory."""
        self.serve(*models)
        for model in models:
            if not model.is_profile:
                self.registry.load(model.name, model, 0)
                await self.until(partial(self.is_ready, model.name))

    def is_ready(self, name: str = "chat") -> bool:
        return self.seen(name).phase is Phase.READY

    def seen(self, name: str = "chat") -> ObservedModel:
        return next(each for each in self.registry.observed() if each.name == name)

    def pid(self, name: str = "chat") -> int:
        loaded = self.registry.find(name).resident.loaded
        assert loaded is not None and loaded.engine.pid is not None
        return loaded.engine.pid

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds after some change."""
        while not condition():
            await self._changed.wait()

    def start(self, text: str, model: str = "chat") -> Generation:
        request = ChatRequest(model=model, messages=(Message("user", text),))
        ids = RequestIds(new_request_id(), None, Sender())
        generation = self.pipeline.open(request, ids)
        generation.start()
        return generation

    async def begin(self, text: str, model: str = "chat") -> Generation:
        """Return a request of which the engine is at work."""
        generation = self.start(text, model)
        await generation.opened()
        return generation

    async def finish(self, generation: Generation) -> str:
        """Return the rest of an answer."""
        try:
            await generation.opened()
            events = await self.pipeline.whole(generation)
        finally:
            self.pipeline.close(generation)
        return "".join(event.text for event in events if isinstance(event, TextDelta))

    async def ask(self, text: str = "short", model: str = "chat") -> str:
        return await self.finish(self.start(text, model))

    def value(self, name: str, **labels: str) -> float | None:
        self.registry.refresh_gauges(self.metrics)
        labels = {"model": "chat"} | labels
        return self.metrics.registry.get_sample_value(f"vllm_mlx_{name}", labels)

    async def _verify(self, name: str, spec: ModelSpec, lease: Lease) -> str | None:
        if self.examine is not None:
            await self.examine(lease)
        request = ChatRequest(model=name, messages=(Message("user", "verify"),))
        ids = RequestIds(new_request_id(), None, Sender())
        generation = self.pipeline.open(request, ids, lease.again())
        generation.start()
        self.verified.append(await self.finish(generation))
        return self.flaw

    async def _admit(self, name: str) -> int:
        self.admitted.append(name)
        return 0 if self.room is None else await self.room(name)

    def _note_change(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def play(
    folder: Path, test: Callable[[Stand], Awaitable[None]], text: TextProcess | None = None
) -> None:
    """Run `test` with a stand of its own; no worker outlives it."""

    async def main() -> None:
        stand = Stand()
        stand.build(folder, text or TextProcess())
        try:
            await test(stand)
        finally:
            await stand.registry.stop()

    asyncio.run(asyncio.wait_for(main(), 40))


def is_running(pid: int) -> bool:
    """Say whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
