"""Download a model's files from a model hub, pinned to one commit."""

import contextlib
import glob
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event, Thread

from huggingface_hub import HfApi, errors, snapshot_download
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import disable_progress_bars

from appliance.disk import file_sha256, publish, require_space
from appliance.errors import SourceError
from appliance.manifest.source import HfSource
from appliance.registry.package import Report

_TEXT_SUFFIXES = (".json", ".jinja", ".txt", ".tiktoken", ".model")
_TOP_SUFFIXES = (".safetensors", ".py")
_TIMEOUT_SECONDS = 20.0
_POLL_SECONDS = 0.25
_MARGIN_BYTES = 64 * 2**20


@dataclass(frozen=True)
class _RemoteFile:
    name: str
    size: int
    sha256: str | None
    blob_id: str | None


def newest_revision(source: HfSource) -> str:
    """Return the commit that the source's revision means on the hub now; raises SourceError."""
    with _hub_errors(source):
        return _list_files(source)[0]


def fetch_snapshot(source: HfSource, dest: Path, work: Path, report: Report) -> None:
    """Put the files that an MLX model needs at `dest`; `work` keeps the files a retry can skip.

    Every file is checked against the hub's size and digest. Raises SourceError; when it does,
    `dest` does not exist.
    """
    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    with _hub_errors(source):
        commit, files = _list_files(source)
        total = sum(file.size for file in files)
        work.mkdir(parents=True, exist_ok=True)
        _drop_orphans(work)
        require_space(str(source), work, total - _bytes_below(work) + _MARGIN_BYTES)
        with _reported(work, total, report):
            snapshot_download(
                source.repo,
                revision=commit,
                local_dir=work,
                allow_patterns=[glob.escape(file.name) for file in files],
                token=_token(),
            )
    _verify(source, work, files, report)
    _keep_only(work, files)
    publish(work, dest)


def _list_files(source: HfSource) -> tuple[str, list[_RemoteFile]]:
    found = HfApi(token=_token()).model_info(
        source.repo, revision=source.revision, files_metadata=True, timeout=_TIMEOUT_SECONDS
    )
    files = [
        _remote_file(sibling)
        for sibling in found.siblings or ()
        if _is_wanted(PurePosixPath(sibling.rfilename))
    ]
    if not any(file.name.endswith(".safetensors") for file in files):
        raise SourceError(str(source), "the repository holds no safetensors weights")
    return str(found.sha), files


def _remote_file(sibling: RepoSibling) -> _RemoteFile:
    size = sibling.size or 0
    if sibling.lfs:
        return _RemoteFile(sibling.rfilename, size, sibling.lfs.sha256, None)
    return _RemoteFile(sibling.rfilename, size, None, sibling.blob_id)


def _is_wanted(path: PurePosixPath) -> bool:
    if path.is_absolute() or any(part.startswith(".") for part in path.parts):
        return False
    if path.suffix in _TEXT_SUFFIXES:
        return True
    # Some repositories hold the same weights twice, once for another program.
    is_twin = path.name.startswith("consolidated")
    return path.suffix in _TOP_SUFFIXES and len(path.parts) == 1 and not is_twin


def _token() -> bool | None:
    # A token is a secret between the user and the hub itself: no mirror may see it.
    return False if os.environ.get("HF_ENDPOINT") else None


def _verify(source: HfSource, work: Path, files: list[_RemoteFile], report: Report) -> None:
    total = sum(file.size for file in files if file.sha256)
    done = 0
    for file in files:
        path = work / file.name
        if not path.is_file() or path.stat().st_size != file.size:
            raise SourceError(str(source), f"'{file.name}' did not arrive whole", retryable=True)
        if file.sha256 is None:
            is_whole = file.blob_id in (None, _blob_id(path))
        else:
            digest = file_sha256(path, partial(_report_verified, report, done, total))
            done += file.size
            is_whole = digest == file.sha256
        if not is_whole:
            path.unlink()
            raise SourceError(str(source), f"'{file.name}' arrived damaged", retryable=True)


def _blob_id(path: Path) -> str:
    # How git names a file's content; the hub gives nothing else of small files.
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _report_verified(report: Report, before: int, total: int, read: int) -> None:
    report("verify", before + read, total)


def _drop_orphans(work: Path) -> None:
    # The library resumes whole files only: what a killed run had of one it never takes up again.
    for path in (work / ".cache").rglob("*.????????.incomplete"):
        path.unlink()


def _keep_only(work: Path, files: list[_RemoteFile]) -> None:
    shutil.rmtree(work / ".cache", ignore_errors=True)
    names = {file.name for file in files}
    for path in work.rglob("*"):
        if path.is_file() and path.relative_to(work).as_posix() not in names:
            path.unlink()


@contextlib.contextmanager
def _reported(work: Path, total: int, report: Report) -> Iterator[None]:
    done = Event()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            report("download", min(_bytes_below(work), total), total)

    watcher = Thread(target=watch, name="progress", daemon=True)
    report("download", min(_bytes_below(work), total), total)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    report("download", total, total)


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            # Blocks, not size: a file may be laid out whole before its bytes arrive.
            facts = path.stat()
            total += min(facts.st_size, facts.st_blocks * 512) if path.is_file() else 0
    return total


@contextlib.contextmanager
def _hub_errors(source: HfSource) -> Iterator[None]:
    def failed(reason: str, *, retryable: bool = False) -> SourceError:
        return SourceError(str(source), reason, retryable=retryable)

    try:
        yield
    except errors.GatedRepoError as error:
        raise failed(f"the repository is gated: accept its terms{_token_hint()}") from error
    except errors.RevisionNotFoundError as error:
        raise failed(f"the repository has no revision '{source.revision}'") from error
    except errors.RepositoryNotFoundError as error:
        reason = f"no such repository, or it is private{_token_hint()}"
        raise failed(reason) from error
    except errors.HfHubHTTPError as error:
        code = error.response.status_code
        is_passing = code >= 500 or code in (408, 429)
        raise failed(f"the hub answers with status {code}", retryable=is_passing) from error
    except (errors.LocalEntryNotFoundError, errors.FileMetadataError, ConnectionError) as error:
        raise failed("the hub cannot be reached", retryable=True) from error
    except errors.HTTPError as error:
        kind = type(error).__name__
        raise failed(f"the hub cannot be reached ({kind})", retryable=True) from error
    except errors.HFValidationError as error:
        raise failed("is no valid repository name") from error


def _token_hint() -> str:
    if _token() is False:
        return "; no token is sent to the mirror that HF_ENDPOINT names"
    return " and set HF_TOKEN to a token that opens it"
