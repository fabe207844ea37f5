"""Ask the appliance about a manifest: which is in force, what would another change."""

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from appliance.cli.output import CommandFailed
from appliance.cli.reach import ApiError, ApplianceClient
from appliance.cli.wire import ChangeBody, ManifestBody, PlanBody
from appliance.errors import ManifestError

_MANIFEST = "/admin/v1/manifest"


def read_file(file: Path) -> bytes:
    """Return what stands in `file`; raises CommandFailed."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file}: cannot be read: {error.strerror}") from error


def fetch_manifest(client: ApplianceClient) -> ManifestBody:
    """Return the manifest in force; raises CommandFailed."""
    return client.get(_MANIFEST, ManifestBody)


def fetch_plan(client: ApplianceClient, content: bytes, name: str) -> PlanBody:
    """Return what `content`, called `name` here, would change; raises ManifestError as well."""
    with problems_of(name):
        return client.send("POST", "/admin/v1/plan", PlanBody, content)


def put_manifest(client: ApplianceClient, content: bytes, name: str, etag: str) -> ChangeBody:
    """Make `content` the manifest in force if that is still the one of `etag`.

    Raises ManifestError and CommandFailed; nothing has changed then.
    """
    with problems_of(name), changed_meanwhile(f"vllm-mlx diff {shlex.quote(name)}"):
        return client.send("PUT", _MANIFEST, ChangeBody, content, etag)


@contextlib.contextmanager
def problems_of(name: str | None = None) -> Iterator[None]:
    """Turn a refused manifest into its ManifestError; `name` is what it is called here."""
    try:
        yield
    except ApiError as error:
        if not error.problems:
            raise
        problems = tuple(replace(problem, file=name or problem.file) for problem in error.problems)
        raise ManifestError(problems) from error


@contextlib.contextmanager
def changed_meanwhile(command: str) -> Iterator[None]:
    """Say clearly that somebody else was quicker, and which command shows what they did."""
    try:
        yield
    except ApiError as error:
        if error.status != 412:
            raise
        raise CommandFailed(
            f"somebody else changed the manifest since you looked; run '{command}'"
        ) from error
