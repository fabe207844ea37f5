"""Ask and tell the disk: room, digests, and what must be there after a power cut."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from appliance.errors import SourceError

_CHUNK_BYTES = 2**22


def require_space(source: str, folder: Path, num_bytes: int) -> None:
    """Raise SourceError when the disk of `folder` cannot take `num_bytes` more."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise SourceError(
            source,
            f"not enough disk space: {num_bytes} bytes are needed and {free} are free",
            retryable=True,
        )


def file_sha256(path: Path, report: Callable[[int], None]) -> str:
    """Return the digest of a file as hex; `report` gets the bytes read so far, and may raise."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
            report(stream.tell())
    return digest.hexdigest()


def publish(made: Path, dest: Path) -> None:
    """Rename `made`, a file or a folder, to `dest`, whose presence means that it is complete.

    Every byte of it is on the disk before that, and the new name when this returns.
    """
    files, folders = [made], []
    if made.is_dir():
        files.clear()
        for folder, _, names in os.walk(made):
            folders.append(Path(folder))
            files += (Path(folder, name) for name in names)
    # What a link leads to is somebody else's.
    sync(path for path in files if not path.is_symlink())
    sync(folders)
    made.replace(dest)
    sync([dest.parent])


def sync(paths: Iterable[Path]) -> None:
    """Wait until files, or the lists of names that folders are, are on the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
