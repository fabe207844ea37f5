"""Keep the text process able to render for one copy of a model, under every template in use."""

import asyncio
import itertools
from collections.abc import Iterable
from pathlib import Path

import structlog

from appliance.chat.client import TextProcess
from appliance.errors import ApplianceError, ModelNotReady, SourceError
from appliance.manifest.spec import resolve_path

log = structlog.get_logger()

_numbers = itertools.count(1)


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

    async def begin(self, directory: Path, template: str) -> None:
        """Read the tokenizer in `directory`; raises SourceError if it or `template` is no good."""
        await self.forget()
        self._directory = directory
        await asyncio.shield(self._load(template))
        self.want(self._wanted)

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
        try:
            await asyncio.shield(self._loads.get(template) or self._load(template))
        except ApplianceError as error:
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
        self._directory = None
        await self._drop(tuple(self._loads))

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
