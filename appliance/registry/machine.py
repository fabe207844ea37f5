"""Answer how much memory models can have on this machine, all of them together."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import msgspec

from appliance.launch import module_command, module_environment
from appliance.registry.device import Device, guess_device

_PROBE = "appliance.engine.probe"
_ANSWER_SECONDS = 60.0
_MEMBERSHIP = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")
_WIRED_LIMIT = ("/usr/sbin/sysctl", "-n", "iogpu.wired_limit_mb")


class _Probe(msgspec.Struct):
    memory_bytes: int = 0


async def machine_bytes(device: Device | None = None) -> int:
    """Return the bytes that the machine can give to models; it does not change while it runs.

    `device` None = a guess (see device.guess_device).
    On Metal the wired limit if an administrator set one, else the recommended working set; on CUDA
    the GPU's memory; else, and where MLX does not say, the smaller of the RAM and the limit of this
    process's cgroups. Asks MLX in a child process, which takes a second.
    """
    device = device or guess_device()
    if device == "metal" and (wired := _number(await _answer(*_WIRED_LIMIT))):
        return wired * 2**20
    if device != "cpu" and (size := parse_probe(await _answer(*module_command(_PROBE)))):
        return size
    return ram_bytes()


def ram_bytes(membership: Path = _MEMBERSHIP, mount: Path = _MOUNT) -> int:
    """Return the smaller of the RAM and the cgroups' limit; see `cgroup_bytes`."""
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = cgroup_bytes(membership, mount) if sys.platform == "linux" else None
    return ram if limit is None else min(ram, limit)


def cgroup_bytes(membership: Path, mount: Path) -> int | None:
    """Return the least memory limit of the process's cgroups and all above them, None without one.

    `membership` is its /proc/…/cgroup, `mount` where cgroups are mounted: version 2 there, the
    memory controller of version 1 below it (cgroups(7) of the Linux manual).
    """
    limits = []
    for line in _read(membership).splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            limits += _limits(mount, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(mount / "memory", path, "memory.limit_in_bytes")
    return min(limits, default=None)


def parse_probe(answer: bytes) -> int:
    """Return the memory of the device that the probe process tells of, 0 if it tells of none."""
    try:
        return msgspec.json.decode(answer, type=_Probe).memory_bytes
    except msgspec.DecodeError:
        return 0


def _limits(mount: Path, path: str, file: str) -> list[int]:
    # In a container the path may be the host's; what is mounted is then the container's own group.
    group = mount / path.lstrip("/")
    groups = [each for each in (group, *group.parents) if each.is_relative_to(mount)]
    read = (_number(_read(each / file)) for each in groups)
    return [limit for limit in read if limit]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(text: str | bytes) -> int:
    """Return a whole number, 0 for none; `max` is how version 2 says that there is no limit."""
    return int(text) if text.strip().isdigit() else 0


async def _answer(*command: str) -> bytes:
    """Return what a command writes, nothing if it is not there, fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=module_environment(),
        )
    except OSError:
        return b""
    try:
        written, _ = await asyncio.wait_for(process.communicate(), _ANSWER_SECONDS)
    except TimeoutError:
        return b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return written if process.returncode == 0 else b""
