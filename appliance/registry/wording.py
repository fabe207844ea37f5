"""Keep the text process able to render for one copy of a model, under every template in use."""

import asyncio
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from appliance.chat.client import TextProcess
from appliance.errors import ApplianceError, ModelNotReady, SourceError
from appliance.manifest.spec import ModelSpec, resolve_path

log = structlog.get_logger()

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Voice:
    """How prompts are made under one name: its spec, and what the text process calls it."""

    spec: ModelSpec
    text_name: str


class Wording:
    """One tokenizer in the text process for each template of one copy. Event loop only.

    Templates are as the manifest has them: `auto`, or a path relative to its folder. Two copies of
    one model have different tokenizers, so the text process knows them by names of their own.
    """

    def __init__(self, model: str, text: TextProcess, folder: Path) -> None:
        self._model = model
        self._text = text
        self._folder = folder
        self._label = f"{model}#{next(_numbers)}"
        self._directory: Path | None = None
        self._wanted: frozenset[str] = frozenset()
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._sweeping: asyncio.Task[None] | None = None

    def name(self, template: str) -> str:
        """Return what the text process calls this copy under `template`."""
        return self._label if template == "auto" else f"{self._label}:{template}"

    @property
    def is_open(self) -> bool:
        """Whether it knows where the files are, so that `ready` can read them."""
        return self._directory is not None

    def open(self, directory: Path) -> None:
        """Let `ready` read from `directory`, unless it does already: for a copy not yet loaded."""
        self._directory = self._directory or directory

    async def begin(self, directory: Path, template: str) -> None:
        """Read the tokenizer in `directory`; raises SourceError if it or `template` is no good.

        What was read before stays until its like is read anew, so that nobody's render fails.
        """
        before, self._loads = self._loads, {}
        self._directory = directory
        try:
            await asyncio.shield(self._load(template))
            self.want(self._wanted)
        finally:
            await self._forget(self.name(each) for each in before.keys() - self._loads.keys())

    def want(self, templates: Iterable[str]) -> None:
        """Make ready for `templates`, in the background, and for no others."""
        self._wanted = frozenset(templates)
        if self._directory is not None:
            for template in self._wanted - self._loads.keys():
                self._load(template)

    async def ready(self, template: str) -> None:
        """Wait until `template` can be rendered; raises ModelNotReady.

        A template that is no good is not tried again before `forgive`.
        """
        if self._directory is None:
            return
        load = self._loads.get(template) or self._load(template)
        try:
            await asyncio.shield(load)
        except ApplianceError as error:
            if self._loads.get(template) not in (None, load):
                await self.ready(template)  # it was begun anew meanwhile
                return
            if not isinstance(error, SourceError):
                self._loads.pop(template, None)
            reason = "its chat template cannot be used; the log tells why"
            raise ModelNotReady(self._model, reason, retry_after_seconds=60.0) from error

    def forgive(self) -> None:
        """Let templates that were no good be tried again."""
        for template, load in tuple(self._loads.items()):
            if load.done() and (load.cancelled() or load.exception() is not None):
                del self._loads[template]

    def sweep(self) -> None:
        """Forget templates that nobody wants; call while no lease is on the copy."""
        stale = [each for each in self._loads.keys() - self._wanted if self._loads[each].done()]
        if stale and self._wanted:
            self._sweeping = asyncio.create_task(self._drop(stale), name=f"sweep-{self._label}")

    async def forget(self) -> None:
        """Free everything the text process has of this copy. Idempotent."""
        await self._forget(self._let_go())

    def forget_soon(self) -> None:
        """As `forget`, in the background; what is read from now on is not touched by it."""
        names = self._let_go()
        if names:
            self._sweeping = asyncio.create_task(self._forget(names), name="forget-wording")

    def _let_go(self) -> list[str]:
        names = [self.name(each) for each in self._loads]
        self._directory, self._loads = None, {}
        self._label = f"{self._model}#{next(_numbers)}"
        return names

    async def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            await self._text.forget(name)

    async def _drop(self, templates: Iterable[str]) -> None:
        for template in templates:
            if self._loads.pop(template, None) is not None:
                await self._text.forget(self.name(template))

    def _load(self, template: str) -> asyncio.Task[None]:
        assert self._directory is not None
        file = None if template == "auto" else resolve_path(self._folder, Path(template))
        load = asyncio.create_task(
            self._text.configure(self.name(template), self._directory, file),
            name=f"wording-{self._label}",
        )
        load.add_done_callback(self._on_loaded)
        self._loads[template] = load
        return load

    def _on_loaded(self, load: asyncio.Task[None]) -> None:
        error = None if load.cancelled() else load.exception()
        if isinstance(error, SourceError):
            log.error("template_failed", model=self._model, reason=str(error))
