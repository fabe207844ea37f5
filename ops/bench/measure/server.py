"""Run the servers that are measured, ours and the peers', one at a time and the others asleep."""

import contextlib
import http.client
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway import free_port

from measure.stream import Client

ROOT = Path(__file__).resolve().parents[3]
_START_SECONDS = 1800
_STOP_SECONDS = 30
_MANIFEST = """\
version: 1
server:
  limits: {{request_timeout: 1h, queue_per_model: 4096, write_timeout: 10m}}
models:
  - name: m
    source: "path:{folder}"
    engine: {{max_sequences: {streams}}}
    residency: {{preload: true}}
"""


@dataclass(frozen=True)
class Peers:
    """The commands that start the peers; an empty one leaves that peer out."""

    mlx_lm: str
    vllm_mlx: str


class Server:
    """One server process and its children, asleep (SIGSTOP) outside a `with` block.

    Ours only idles there, since its watchdog takes a worker that sleeps for stuck.
    """

    def __init__(self, name: str, model: str, command: list[str], work: Path) -> None:
        self.name = name
        self.port = int(command[command.index("--port") + 1])
        self.client = Client(f"http://127.0.0.1:{self.port}", model)
        self._can_sleep = name != "ours"
        self._log = (work / f"{name}.log").open("w")
        self._process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=_environment(work, is_peer=self._can_sleep),
            cwd=ROOT,
            start_new_session=True,
        )

    def wait(self) -> None:
        """Wait until the server answers a first request in full."""
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_listening():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start; see {self._log.name}")
            time.sleep(0.2)
        stream = self.client.ask("Say one word.", 2)
        self.client.read(lambda: False, _START_SECONDS)
        assert stream.tokens
        self._signal(signal.SIGSTOP)

    def __enter__(self) -> Self:
        self._signal(signal.SIGCONT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._signal(signal.SIGSTOP)

    def stop(self) -> None:
        """End the process, by force if it does not go."""
        self._signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._can_sleep:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _is_listening(self) -> bool:
        path = "/v1/models" if self._can_sleep else "/health/ready"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def start_servers(
    names: list[str], folder: Path, streams: int, peers: Peers, work: Path
) -> list[Server]:
    """Start servers of a model folder that each take so many streams at once."""
    makers = {"ours": _ours, "mlx_lm": _mlx_lm, "vllm_mlx": _vllm_mlx}
    servers: list[Server] = []
    try:
        for name in names:
            made = makers[name](folder, streams, peers, work)
            if made is None:
                print(f"{name}: no command to start it, left out", flush=True)
                continue
            server = Server(name, *made, work)
            servers.append(server)
            server.wait()
    except BaseException:
        stop_servers(servers)
        raise
    return servers


def stop_servers(servers: list[Server]) -> None:
    for server in servers:
        server.stop()


Start = tuple[str, list[str]]


def _ours(folder: Path, streams: int, peers: Peers, work: Path) -> Start | None:
    manifest = work / "vllm-mlx.yaml"
    manifest.write_text(_MANIFEST.format(folder=folder, streams=streams))
    command = [sys.executable, "-m", "appliance", "serve", "-c", str(manifest)]
    command += ["--port", str(free_port()), "--state-dir", str(work / "state")]
    return "m", [*command, "--log-level", "warning"]


def _mlx_lm(folder: Path, streams: int, peers: Peers, work: Path) -> Start | None:
    if not peers.mlx_lm:
        return None
    command = [*shlex.split(peers.mlx_lm), "server", "--model", str(folder)]
    command += ["--port", str(free_port()), "--log-level", "WARNING"]
    command += ["--decode-concurrency", str(streams), "--prompt-concurrency", str(streams)]
    return "default_model", command


def _vllm_mlx(folder: Path, streams: int, peers: Peers, work: Path) -> Start | None:
    if not peers.vllm_mlx:
        return None
    command = [*shlex.split(peers.vllm_mlx), "serve", str(folder), "--served-model-name", "m"]
    command += ["--port", str(free_port()), "--continuous-batching", "--host", "127.0.0.1"]
    command += ["--max-num-seqs", str(streams), "--completion-batch-size", str(streams)]
    return "m", [*command, "--prefill-batch-size", str(streams)]


def _environment(work: Path, *, is_peer: bool) -> dict[str, str]:
    hub = work / "hub"
    hub.mkdir(exist_ok=True)
    more = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(hub)}
    if is_peer and sys.platform == "linux":
        # Ours does so by itself; a library that is not there is only a warning.
        more["LD_PRELOAD"] = "libopenblas.so.0"
    if not is_peer:
        # For its children, where the project is not installed.
        more["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return os.environ | more
