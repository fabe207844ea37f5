"""Run a real `vllm-mlx serve` in a folder of its own, for tests over real sockets."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Thread
from typing import Any

from appliance.launch import module_command, module_environment

DEADLINE_SECONDS = 30.0

ECHO_MANIFEST = """\
version: 1
models:
  - name: echo
    aliases: [parrot]
    source: scripted:script.yaml
    residency: {preload: true}
"""
"""One model that repeats the last user message, unless `script.yaml` says otherwise."""

ECHO_FILES: Mapping[str, str] = {"script.yaml": "[]\n"}


class LogLines:
    """Every JSON line that a process wrote to stdout. Written by one thread of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lines: list[dict[str, Any]] = []
        self._changed = Condition()
        self._is_over = False
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait_for(self, event: str, seconds: float = DEADLINE_SECONDS) -> dict[str, Any] | None:
        """Return the first line of this event, or None if the process ends without it."""

        def find() -> dict[str, Any] | None:
            return next((line for line in self._lines if line.get("event") == event), None)

        with self._changed:
            if not self._changed.wait_for(lambda: find() or self._is_over, seconds):
                raise TimeoutError(f"no log line '{event}' within {seconds} s: {self._lines}")
            return find()

    def all(self) -> list[dict[str, Any]]:
        """Return the lines so far."""
        with self._changed:
            return list(self._lines)

    def close(self) -> None:
        """Wait for the end of the output, which comes with the end of the process."""
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive(), "somebody still holds the appliance's stdout"

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                parsed = _parse_line(line)
                with self._changed:
                    self._lines.append(parsed)
                    self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


def _parse_line(line: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        return {"text": line.decode(errors="replace")}
    return parsed if isinstance(parsed, dict) else {"text": parsed}


@dataclass(frozen=True)
class RunningAppliance:
    """An appliance that listens; `folder` holds its manifest, `state_dir` its state."""

    url: str
    process: subprocess.Popen[bytes]
    folder: Path
    state_dir: Path
    log_lines: LogLines

    @property
    def manifest(self) -> Path:
        """The file that it serves."""
        return self.folder / "vllm-mlx.yaml"

    def logs(self) -> list[dict[str, Any]]:
        """Return every log line so far."""
        return self.log_lines.all()

    def errors(self) -> str:
        """Return what it wrote to stderr so far."""
        return (self.folder / "stderr.txt").read_text(encoding="utf-8", errors="replace")

    def wait_ready(self, seconds: float = DEADLINE_SECONDS) -> None:
        """Wait until /health/ready says yes."""

        def is_ready() -> bool:
            assert self.process.poll() is None, f"the appliance ended: {self.errors()}"
            return http_status(f"{self.url}/health/ready") == 200

        wait_until(is_ready, seconds, "the appliance is ready")

    def stop(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Send SIGTERM, kill after `seconds`, and return the exit code. Idempotent."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.log_lines.close()
        return code


@contextlib.contextmanager
def running_appliance(
    manifest: str = ECHO_MANIFEST,
    files: Mapping[str, str] = ECHO_FILES,
    *,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] = (),
    is_ready: bool = True,
) -> Iterator[RunningAppliance]:
    """Serve a manifest on a free port, in its folder, until the block ends; `files` lie beside it.

    With `is_ready`, every required model is in memory when the block begins.
    """
    # A short path, so that the private socket lies in the state folder.
    with tempfile.TemporaryDirectory(prefix="vm-", dir="/tmp") as name:
        folder = Path(name)
        for file, text in {**files, "vllm-mlx.yaml": manifest}.items():
            (folder / file).write_text(text, encoding="utf-8")
        appliance = start_in(folder, dict(env or {}), args)
        try:
            if is_ready:
                appliance.wait_ready()
            yield appliance
        finally:
            appliance.stop()


def start_in(folder: Path, env: dict[str, str], args: Sequence[str]) -> RunningAppliance:
    """Serve the manifest in a folder, with its state beside it; the caller stops it."""
    state_dir = folder / "state"
    options = ["-c", str(folder / "vllm-mlx.yaml"), "--port", "0", "--state-dir", str(state_dir)]
    with (folder / "stderr.txt").open("wb") as stderr:
        process = subprocess.Popen(
            module_command("appliance", "serve", *options, *args),
            env=module_environment(clean_environment() | env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    log_lines = LogLines(process)
    appliance = RunningAppliance("", process, folder, state_dir, log_lines)
    try:
        listening = log_lines.wait_for("listening")
        assert listening is not None, f"the appliance did not start: {appliance.errors()}"
    except BaseException:
        appliance.stop()
        raise
    return RunningAppliance(listening["address"], process, folder, state_dir, log_lines)


def clean_environment() -> dict[str, str]:
    """Return this process's environment without any setting of the appliance."""
    return {name: value for name, value in os.environ.items() if not name.startswith("VLLM_MLX_")}


def wait_until(
    condition: Callable[[], object], seconds: float = DEADLINE_SECONDS, what: str = "condition"
) -> None:
    """Ask `condition` until it holds, at first often; raises TimeoutError after `seconds`."""
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        if waited > seconds:
            raise TimeoutError(f"not within {seconds} s: {what}")
        # Asking costs the appliance time that it needs to come to what is waited for.
        time.sleep(min(0.02 + waited / 20, 0.2))


def http_status(url: str) -> int:
    """Return the status of a GET; 0 if nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0
