"""Take one file or folder out of a wheel or source archive that nobody vouches for."""

import difflib
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from appliance.errors import SourceError

# Deflate reaches 1:1032 on zeros; weights, vocabularies and templates stay far below 1:100.
_MAX_RATIO = 100
_FREE_BYTES = 64 * 2**20
_MAX_ENTRIES = 200_000
_CHUNK_BYTES = 2**20
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    UnicodeDecodeError,
    NotImplementedError,
)


@dataclass(frozen=True)
class _Entry:
    path: PurePosixPath
    size: int
    kind: str  # file, folder or other: links and devices
    open: Callable[[], IO[bytes]]


def extract_member(archive: Path, member: str | None, dest: Path, *, source: str) -> None:
    """Write `member` of `archive` to `dest`, which must not exist: a file or a folder.

    `member` is relative to the wheel's root, or to the inside of a source archive's top folder;
    None takes everything. Raises SourceError, naming `source`, when it is absent, when a name
    leaves the archive, when a link or device is in the way, or when the content is absurdly
    larger than the archive. What was written before an error stays behind for the caller.
    """
    wanted = PurePosixPath(member) if member else PurePosixPath()
    names: set[str] = set()
    is_found = False
    try:
        with _open_archive(archive, source) as entries:
            for entry in _bounded(entries, archive.stat().st_size, source):
                names.add(str(entry.path))
                if entry.path.is_relative_to(wanted) and entry.kind != "folder":
                    is_found = True
                    _write_entry(entry, dest / entry.path.relative_to(wanted), source)
    except _DAMAGED as error:
        raise _damaged(archive, source) from error
    except OSError as error:
        # bz2 speaks of broken content so; an error of the disk has a number.
        if error.errno is not None:
            raise
        raise _damaged(archive, source) from error
    if not is_found:
        raise SourceError(source, _absent(member or "", names))


def _bounded(entries: Iterator[_Entry], archive_bytes: int, source: str) -> Iterator[_Entry]:
    limit = archive_bytes * _MAX_RATIO + _FREE_BYTES
    total = 0
    for number, entry in enumerate(entries):
        total += entry.size
        if total > limit or number >= _MAX_ENTRIES:
            raise SourceError(source, "the archive unpacks to absurdly more than its own size")
        yield entry


def _write_entry(entry: _Entry, dest: Path, source: str) -> None:
    if entry.kind != "file":
        raise SourceError(source, f"'{entry.path}' in the archive is a link or device")
    left = entry.size
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        with entry.open() as read, dest.open("xb") as write:
            while chunk := read.read(_CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise SourceError(source, f"'{entry.path}' is larger than the archive says")
                write.write(chunk)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise SourceError(source, f"'{entry.path}' is in the archive twice") from error


@contextmanager
def _open_archive(archive: Path, source: str) -> Iterator[Iterator[_Entry]]:
    is_wheel = archive.suffix == ".whl"
    if is_wheel or archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            yield _zip_entries(zipped, 0 if is_wheel else 1, source)
    else:
        with tarfile.open(archive) as tar:
            yield _tar_entries(tar, source)


def _zip_entries(zipped: zipfile.ZipFile, depth: int, source: str) -> Iterator[_Entry]:
    for info in zipped.infolist():
        mode = stat.S_IFMT(info.external_attr >> 16)
        kind = "folder" if info.is_dir() else "file" if mode in (0, stat.S_IFREG) else "other"
        if info.flag_bits & 1:
            raise SourceError(source, "the archive is encrypted")
        path = _safe_path(info.filename, depth, source)
        yield _Entry(path, info.file_size, kind, partial(zipped.open, info))


def _tar_entries(tar: tarfile.TarFile, source: str) -> Iterator[_Entry]:
    for info in tar:
        kind = "folder" if info.isdir() else "file" if info.isreg() else "other"
        path = _safe_path(info.name, 1, source)
        yield _Entry(path, info.size, kind, partial(_open_tar_entry, tar, info))


def _open_tar_entry(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = tar.extractfile(info)
    assert stream is not None, "only regular files are opened"
    return stream


def _safe_path(name: str, depth: int, source: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise SourceError(source, f"the archive holds the unsafe path {name!r}")
    return PurePosixPath(*path.parts[depth:])


def _damaged(archive: Path, source: str) -> SourceError:
    return SourceError(source, f"{archive.name} is damaged or of an unknown form")


def _absent(member: str, names: set[str]) -> str:
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    known = sorted((names | folders) - {"."})
    basename = PurePosixPath(member).name
    near = [name for name in known if PurePosixPath(name).name == basename][:3]
    near = near or difflib.get_close_matches(member, known, n=3)
    hint = f"; near it: {', '.join(near)}" if near else ""
    return f"the package holds no '{member}'{hint}"
