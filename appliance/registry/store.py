"""Turn a source into a ready model directory on this disk, doing each piece of work once."""

import asyncio
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import structlog

from appliance.disk import sync
from appliance.errors import SourceError
from appliance.manifest.source import (
    HfSource,
    PathSource,
    ScriptedSource,
    Source,
    WheelSource,
)
from appliance.manifest.spec import resolve_path
from appliance.registry.child import Job, OnProgress
from appliance.registry.device import WeightForm, guess_device, weight_form
from appliance.registry.digest import DigestMemo, identify
from appliance.registry.inspection import missing_shards
from appliance.registry.lock import exclusive_lock

_FETCH = "appliance.registry.fetch"
_CONVERT = "appliance.engine.convert"
_GGUF = ".gguf"
# What waiting does not mend: the path itself is wrong. All else, a full disk say, may pass.
_LASTING = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EINVAL,
)

# Part of every converted entry's name: raise it when the same file would convert differently.
_CONVERSION = 1
_LABEL_CHARACTERS = 80
_TOKENIZER = "tokenizer.json"

_log = structlog.get_logger()
_Make = Callable[[Path, Job], Awaitable[Path]]


class ModelStore:
    """The model directories below a state folder: `models/` ready, `downloads/` unfinished.

    An entry of `models/` appears by one rename, so what is there is whole. Any number of tasks
    and processes may use one state folder; a lock file per entry orders them. `digests.json`
    remembers what large files of the operator's hold.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        form: WeightForm | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Use `state_dir`; `form` None = what suits this machine; children get `environment`."""
        self._models = state_dir / "models"
        self._downloads = state_dir / "downloads"
        self._digests = DigestMemo(state_dir / "digests.json")
        self._form: WeightForm = form or weight_form(guess_device())
        self._environment = environment

    async def materialise(self, source: Source, *, folder: Path, on_progress: OnProgress) -> Path:
        """Return the MLX model directory of `source`, or the script file of a scripted one.

        Relative paths resolve against `folder`. Downloads and converts what is not there yet,
        in child processes that end with this call, also when it is cancelled. `on_progress`
        gets (phase, done, total) on the event loop; total 0 = unknown. Raises SourceError.
        """
        with _os_errors(source):
            if isinstance(source, ScriptedSource):
                return _script_file(source, folder)
            if isinstance(source, PathSource):
                return await self._materialise_path(source, folder, on_progress)
            if isinstance(source, HfSource):
                return await self._materialise_hub(source, on_progress)
            return await self._materialise_wheel(source, on_progress)

    async def _materialise_wheel(self, source: WheelSource, on_progress: OnProgress) -> Path:
        async def make(work: Path, job: Job) -> Path:
            fetched = await _fetch(source, work, job)
            if fetched.is_dir():
                return await _complete(fetched, job)
            if not _is_gguf(source):
                raise SourceError(str(source), "should name a model folder or a .gguf file")
            return await self._convert(fetched, work, job)

        return await self._enter(self._wheel_entry(source), source, on_progress, make)

    async def fetch(self, source: WheelSource, *, on_progress: OnProgress) -> Path:
        """Return the file or folder that a wheel source names, as it is in the package."""

        async def make(work: Path, job: Job) -> Path:
            return await _fetch(source, work, job)

        entry = self._entry(str(source), _wheel_label(source), "raw")
        entry = entry.with_name(entry.name + _suffix(source))
        return await self._enter(entry, source, on_progress, make)

    def find_cached(self, source: Source, *, folder: Path) -> Path | None:
        """Return what `materialise` would without any work or network, None if it needs some."""
        try:
            entry = self._find_entry(source, folder)
            return None if entry is None else _existing(entry)
        except OSError:
            # `materialise` says what is wrong.
            return None

    def _find_entry(self, source: Source, folder: Path) -> Path | None:
        if isinstance(source, WheelSource):
            return self._wheel_entry(source)
        if isinstance(source, HfSource):
            return self._hub_entry(source)
        path = resolve_path(folder, source.path)
        if isinstance(source, PathSource) and path.suffix == _GGUF and path.is_file():
            digest = self._digests.recall(path.resolve())
            return None if digest is None else self._gguf_entry(digest)
        if isinstance(source, PathSource) and path.is_dir() and not (path / _TOKENIZER).exists():
            return self._completed_entry(path)
        return path

    async def _materialise_path(
        self, source: PathSource, folder: Path, on_progress: OnProgress
    ) -> Path:
        path = resolve_path(folder, source.path)
        if path.is_dir():
            return await self._materialise_folder(source, path, on_progress)
        if not path.is_file():
            raise SourceError(str(source), "there is no such file or folder")
        if path.suffix != _GGUF:
            raise SourceError(str(source), "should be a model folder or a .gguf file")

        before = identify(path)
        digest = await self._digests.digest(path.resolve(), partial(on_progress, "verify"))

        async def make(work: Path, job: Job) -> Path:
            made = await self._convert(path, work, job)
            if identify(path) != before:
                raise SourceError(str(source), "changed while it was read", retryable=True)
            return made

        return await self._enter(self._gguf_entry(digest), source, on_progress, make)

    async def _materialise_folder(
        self, source: PathSource, path: Path, on_progress: OnProgress
    ) -> Path:
        _checked_model(str(source), path)
        if (path / _TOKENIZER).exists():
            return path

        async def make(work: Path, job: Job) -> Path:
            # The operator's folder is never written to: a folder of links to its files is.
            links = work / "links"
            _link_files(path, links)
            return await _complete(links, job)

        return await self._enter(self._completed_entry(path), source, on_progress, make)

    async def _materialise_hub(self, source: HfSource, on_progress: OnProgress) -> Path:
        entry = self._hub_entry(source)
        if source.revision is None:
            return await self._materialise_newest(source, entry, on_progress)

        async def make(work: Path, job: Job) -> Path:
            return await _complete(await _fetch(source, work, job), job)

        return await self._enter(entry, source, on_progress, make)

    async def _materialise_newest(
        self, source: HfSource, link: Path, on_progress: OnProgress
    ) -> Path:
        try:
            commit = await self._newest_commit(source, link, on_progress)
            entry = await self._materialise_hub(HfSource(source.repo, commit), on_progress)
        except SourceError as error:
            cached = _existing(link)
            if cached is None or not error.retryable:
                raise
            _log.warning("cached_snapshot_used", source=str(source), reason=error.reason)
            return cached
        _point(link, entry)
        return entry

    async def _newest_commit(self, source: HfSource, link: Path, on_progress: OnProgress) -> str:
        async with self._job(link, source, on_progress) as job:
            answer = await job.run(_FETCH, str(source))
        commit: str = answer["revision"]
        return commit

    async def _convert(self, gguf: Path, work: Path, job: Job) -> Path:
        dest = work / "converted"
        await asyncio.to_thread(shutil.rmtree, dest, ignore_errors=True)
        await job.run(_CONVERT, str(gguf), str(dest), "--weights", self._form)
        return dest

    async def _enter(
        self, entry: Path, source: Source, on_progress: OnProgress, make: _Make
    ) -> Path:
        if (cached := _existing(entry)) is not None:
            return cached
        async with self._job(entry, source, on_progress) as job:
            work = self._downloads / entry.name
            if _existing(entry) is None:
                work.mkdir(exist_ok=True)
                made = await make(work, job)
                # What the children made is on the disk already.
                made.rename(entry)
                await asyncio.to_thread(sync, [entry.parent])
            await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
        return entry

    @asynccontextmanager
    async def _job(
        self, entry: Path, source: Source, on_progress: OnProgress
    ) -> AsyncIterator[Job]:
        path = self._downloads / f"{entry.name}.lock"
        with _os_errors(source):
            for folder in (self._models, self._downloads):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            async with exclusive_lock(path, partial(on_progress, "waiting", 0, 0)) as lock:
                yield Job(str(source), on_progress, lock, self._environment)

    def _wheel_entry(self, source: WheelSource) -> Path:
        if _is_gguf(source):
            return self._entry(str(source), _wheel_label(source), self._form, _CONVERSION)
        return self._entry(str(source), _wheel_label(source))

    def _gguf_entry(self, digest: str) -> Path:
        # The file's name is no part of it: the same content under another name is there already.
        return self._entry(digest, "gguf", self._form, _CONVERSION)

    def _completed_entry(self, folder: Path) -> Path:
        files = sorted((file.name, *identify(file)) for file in folder.iterdir())
        return self._entry([str(folder.resolve()), files], f"{folder.name}-completed", _CONVERSION)

    def _hub_entry(self, source: HfSource) -> Path:
        return self._entry(str(source), f"{source.repo}-{(source.revision or 'newest')[:12]}")

    def _entry(self, key: object, label: str, *form: object) -> Path:
        digest = hashlib.sha256(json.dumps([key, *form]).encode()).hexdigest()[:12]
        words = "-".join([label, *(str(word) for word in form if isinstance(word, str))])
        readable = re.sub(r"[^\w.]+", "-", words)[-_LABEL_CHARACTERS:].strip("-.")
        return self._models / f"{readable}-{digest}"


@contextmanager
def _os_errors(source: Source) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(str(source), str(error), retryable=error.errno not in _LASTING) from error


async def _fetch(source: WheelSource | HfSource, work: Path, job: Job) -> Path:
    dest = work / f"fetched{_suffix(source)}"
    if not dest.exists():
        await job.run(_FETCH, str(source), str(dest))
    return dest


async def _complete(folder: Path, job: Job) -> Path:
    _checked_model(job.source, folder)
    # The same child makes the tokenizer.json that everything else reads, where it is missing.
    if not (folder / _TOKENIZER).exists():
        await job.run(_CONVERT, str(folder))
    return folder


def _existing(entry: Path) -> Path | None:
    if not entry.exists():
        return None
    return entry.resolve() if entry.is_symlink() else entry


def _point(link: Path, target: Path) -> None:
    if link.exists() and link.resolve() == target.resolve():
        return
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target.name, target_is_directory=True)
    fresh.replace(link)


def _link_files(folder: Path, links: Path) -> None:
    shutil.rmtree(links, ignore_errors=True)
    links.mkdir()
    for file in folder.iterdir():
        (links / file.name).symlink_to(file.resolve())


def _script_file(source: ScriptedSource, folder: Path) -> Path:
    path = resolve_path(folder, source.path)
    if not path.is_file():
        raise SourceError(str(source), "there is no such script file")
    return path


def _checked_model(source: str, folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise SourceError(source, "is no model folder: it has no config.json")
    if missing := missing_shards(folder):
        raise SourceError(source, f"weights are missing: {', '.join(missing)}")
    return folder


def _is_gguf(source: WheelSource) -> bool:
    return source.member is not None and source.member.endswith(_GGUF)


def _suffix(source: WheelSource | HfSource) -> str:
    return _GGUF if isinstance(source, WheelSource) and _is_gguf(source) else ""


def _wheel_label(source: WheelSource) -> str:
    member = source.member.rpartition("/")[2].removesuffix(_GGUF) if source.member else ""
    return f"{source.package}-{source.version}-{member}".rstrip("-")
