"""Answer which content a large file has, reading it once for as long as it does not change."""

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from appliance.errors import SourceError

_CHUNK_BYTES = 2**24


class _Fact(msgspec.Struct, frozen=True):
    """What was found: `sha256` holds for as long as the file looks like this."""

    identity: tuple[int, ...]
    sha256: str


class DigestMemo:
    """The digests of files, remembered in one small file. For one event loop.

    Several processes may share the file: each writes it whole, and what one of them then forgets
    is only read again.
    """

    def __init__(self, path: Path) -> None:
        """Remember in `path`, which need not exist."""
        self._path = path

    def recall(self, file: Path) -> str | None:
        """Return the sha256 of `file`, None where it is not known; raises OSError."""
        fact = self._load().get(str(file))
        return fact.sha256 if fact is not None and fact.identity == identify(file) else None

    async def digest(self, file: Path, report: Callable[[int, int], None]) -> str:
        """Return the sha256 of `file`, reading it if need be; `report` gets bytes done and in all.

        Raises OSError, or SourceError when the file changes while it is read.
        """
        if (known := self.recall(file)) is not None:
            return known
        before = identify(file)
        sha256 = await _read(file, lambda done: report(done, before[0]))
        if identify(file) != before:
            raise SourceError(str(file), "changed while it was read", retryable=True)
        self._save(self._load() | {str(file): _Fact(before, sha256)})
        return sha256

    def _load(self) -> dict[str, _Fact]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Fact])
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return {}

    def _save(self, facts: dict[str, _Fact]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        fresh.write_bytes(msgspec.json.encode(facts))
        fresh.replace(self._path)


def identify(file: Path) -> tuple[int, ...]:
    """Return what changes whenever the content of `file` does; raises OSError."""
    facts = file.stat()
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino


async def _read(file: Path, report: Callable[[int], None]) -> str:
    # In pieces, so that a caller that is cancelled leaves no thread reading gigabytes.
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := await asyncio.to_thread(stream.read, _CHUNK_BYTES):
            await asyncio.to_thread(digest.update, chunk)
            report(stream.tell())
    return digest.hexdigest()
