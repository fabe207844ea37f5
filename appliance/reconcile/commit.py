"""Put a new manifest in the old one's place, so that a crash leaves the one or the other."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from appliance.disk import sync
from appliance.errors import ManifestReadOnly

_NEW_FILE_MODE = 0o600
_ANY_WRITE_BIT = 0o222


def write_manifest(file: Path, text: str) -> None:
    """Make `text` the content of `file`; on the disk for good when this returns. Blocks.

    A link stays a link: what it leads to is replaced, with its mode and, where allowed, its owner.
    One writer at a time. Raises ManifestReadOnly if the file cannot be written; it is as before
    then.
    """
    for _ in commit_steps(file, text):
        pass


def commit_steps(file: Path, text: str) -> Iterator[str]:
    """Write as `write_manifest` does, and yield the name of each step when it is done.

    A process that ends after any step leaves the old or the new text whole; from `renamed` on it
    is the new one. What an unfinished write leaves has a fixed name and is replaced by the next.
    """
    target = _end_of_links(file)
    draft = target.with_name(f".{target.name}.draft")
    content = text.encode()
    if not is_writable(file):
        raise ManifestReadOnly(str(file), "it or its folder is read-only or missing")
    try:
        _create(draft, target)
        yield "created"
        draft.write_bytes(content)
        yield "written"
        sync([draft])
        yield "synced"
        draft.replace(target)
        yield "renamed"
        # Some network mounts cannot sync a folder; the new text is in its place all the same.
        with suppress(OSError):
            sync([target.parent])
        yield "kept"
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise ManifestReadOnly(str(file), error.strerror or "unknown reason") from error


def is_writable(file: Path) -> bool:
    """Say whether `write_manifest` may be expected to work; the disk has the last word."""
    target = _end_of_links(file)
    try:
        # Replacing asks the folder only, and root may write anything: the file's own bits would
        # not count, yet an operator who cleared them meant something.
        is_open = bool(target.stat().st_mode & _ANY_WRITE_BIT) and os.access(target, os.W_OK)
    except FileNotFoundError:
        is_open = True
    except OSError:
        is_open = False
    return is_open and os.access(target.parent, os.W_OK | os.X_OK)


def _end_of_links(file: Path) -> Path:
    # Path.resolve raises on a loop of links, in another way with each version of Python.
    return Path(os.path.realpath(file))


def _create(draft: Path, target: Path) -> None:
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_FILE_MODE)
    try:
        if target.exists():
            old = target.stat()
            with suppress(PermissionError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, old.st_mode & 0o7777)
    finally:
        os.close(descriptor)
