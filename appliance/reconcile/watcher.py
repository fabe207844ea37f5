"""Notice that what a file holds has changed, however it was saved and wherever it lies."""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
from watchfiles import awatch

_STEP_MILLISECONDS = 20
_MAX_LINKS = 40  # as many as Linux follows

log = structlog.get_logger()


@dataclass(frozen=True)
class _Sight:
    """What was there at one look: `digest` is None where nothing can be read."""

    digest: bytes | None
    folders: tuple[Path, ...]


class Watcher:
    """Calls `on_change` when a file's content is another one, has gone or has come back.

    The content must have been the same for `quiet_seconds`. What the file holds when this is made
    counts as known. Notifications only say when to look; a look every `poll_seconds` finds what
    they miss: other machines' writes on a network mount, a folder made anew. `is_polling`: no
    notifications at all. One task runs it; `on_change` is called there and must not block.
    """

    def __init__(
        self,
        file: Path,
        on_change: Callable[[], None],
        quiet_seconds: float = 0.1,
        *,
        is_polling: bool = False,
        poll_seconds: float = 1.0,
    ) -> None:
        self._file = file
        self._on_change = on_change
        self._quiet_seconds = quiet_seconds
        self._is_polling = is_polling
        self._poll_seconds = poll_seconds
        self._hint = asyncio.Event()
        self._known = _look(file).digest

    async def run(self) -> None:
        """Watch until cancelled."""
        listener: asyncio.Task[None] | None = None
        heard: _Sight | None = None
        async with asyncio.TaskGroup() as group:
            while True:
                sight = await self._settle()
                if sight == heard or self._is_polling:
                    await self._wait_for_hint()
                    continue
                # A new content may lie in new folders, or in one made anew under the old name.
                if listener is not None:
                    listener.cancel()
                listener = group.create_task(self._listen(sight.folders))
                heard = sight
                # It listens after its first turn: what came before that is for the next look.
                await asyncio.sleep(0)

    async def _settle(self) -> _Sight:
        sight = await asyncio.to_thread(_look, self._file)
        while sight.digest != self._known:
            await asyncio.sleep(self._quiet_seconds)
            again = await asyncio.to_thread(_look, self._file)
            if again.digest == sight.digest:
                self._known = again.digest
                self._on_change()
            sight = again
        return sight

    async def _wait_for_hint(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hint.wait(), self._poll_seconds)
        self._hint.clear()

    async def _listen(self, folders: tuple[Path, ...]) -> None:
        if not folders:
            return
        quiet = max(_STEP_MILLISECONDS, round(self._quiet_seconds * 1000))
        try:
            async for _ in awatch(
                *folders,
                watch_filter=None,
                debounce=quiet,
                step=_STEP_MILLISECONDS,
                recursive=False,
            ):
                self._hint.set()
        # The library raises alone or in a group, and its own error is a RuntimeError: a file name
        # that is no text, no more watches to be had.
        except* (OSError, RuntimeError) as errors:
            reason = "; ".join(map(str, errors.exceptions))
            log.warning("file_watch_failed", file=str(self._file), error=reason)


def link_folders(file: Path) -> tuple[Path, ...]:
    """Return the real folders where a changed name can make `file` another file. Blocks.

    These are the folder of every link on the way, be it a link to a file or to a folder, and that
    of the file at its end, or the nearest that exists. The root is left out: a change there is no
    edit, and notifications for it would tell of the whole machine on macOS.
    """
    folders: list[Path] = []
    here, names = Path("/"), list(reversed(file.absolute().parts))
    while names and len(folders) < _MAX_LINKS:
        name = names.pop()
        step = here.parent if name == ".." else here / name
        try:
            names += reversed(step.readlink().parts)
        except OSError:
            here = step
        else:
            folders.append(here)
    folders.append(here.parent)
    existing = dict.fromkeys(map(_nearest, folders))
    return tuple(folder for folder in existing if folder != folder.parent)


def _nearest(folder: Path) -> Path:
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def _look(file: Path) -> _Sight:
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").digest()
    except OSError:
        digest = None
    return _Sight(digest, link_folders(file))
