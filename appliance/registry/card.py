"""Say what the small files of a model tell of it, whether it is in memory or not."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from appliance.chat.folder import context_tokens, read_object, read_text
from appliance.chat.infill import find_infill
from appliance.chat.template import read_sources
from appliance.errors import SourceError
from appliance.manifest.spec import ModelSpec, resolve_path
from appliance.registry.surroundings import Store

_TOKENIZER = "tokenizer.json"
_READ = (
    _TOKENIZER,
    "config.json",
    "tokenizer_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "additional_chat_templates",
)

T = TypeVar("T")
_Print = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class ModelCard:
    """What is known of a model from its files; the defaults mean: they are not here, or silent.

    `context_tokens` is what the manifest allows, if that is less. `template` is the source of its
    chat template, "" = it has none; a script needs none. `fills_in`: its tokenizer can ask for what
    stands between two texts.
    """

    context_tokens: int | None = None
    template: str | None = None
    fills_in: bool = False


class CardIndex:
    """Reads cards, each once as long as its files stay as they are. Blocking; for any thread."""

    def __init__(self, store: Store, folder: Path) -> None:
        """Relative paths of the manifest start from `folder`."""
        self._store = store
        self._folder = folder
        self._known: dict[tuple[Path, Path | None], tuple[_Print, ModelCard]] = {}

    def read(self, spec: ModelSpec) -> ModelCard:
        """Return a model's card. Files that cannot be understood are silent: a load says why."""
        bound = spec.engine.max_context_tokens
        if spec.is_scripted():
            return ModelCard(bound)
        directory = self._store.find_cached(spec.parsed_source(), folder=self._folder)
        if directory is None:
            return ModelCard(bound)
        card = self._card(directory, self._template_file(spec))
        lengths = [length for length in (card.context_tokens, bound) if length is not None]
        return replace(card, context_tokens=min(lengths, default=None))

    def _template_file(self, spec: ModelSpec) -> Path | None:
        template = spec.chat.template
        return None if template == "auto" else resolve_path(self._folder, Path(template))

    def _card(self, directory: Path, template_file: Path | None) -> ModelCard:
        files = [directory / name for name in _READ]
        seen = tuple(_identify(file) for file in (*files, template_file) if file is not None)
        known = self._known.get((directory, template_file))
        if known is not None and known[0] == seen:
            return known[1]
        card = _read_card(directory, template_file)
        self._known[directory, template_file] = (seen, card)
        return card


def _read_card(directory: Path, template_file: Path | None) -> ModelCard:
    return ModelCard(
        context_tokens=_or_none(lambda: context_tokens(read_object(directory / "config.json"))),
        template=_or_none(lambda: _read_template(directory, template_file)),
        fills_in=find_infill(partial(_holds, _read_bytes(directory / _TOKENIZER))) is not None,
    )


def _or_none(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except SourceError:
        return None


def _read_template(directory: Path, template_file: Path | None) -> str:
    if template_file is not None:
        return read_text(template_file) or ""
    return read_sources(directory).get("default", "")


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _holds(tokenizer: bytes, token: str) -> bool:
    """Say whether a tokenizer.json has a token; its many megabytes are searched, not parsed."""
    return any(json.dumps(token, ensure_ascii=each).encode() in tokenizer for each in (False, True))


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
