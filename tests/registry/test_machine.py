import asyncio
import os
from pathlib import Path

import pytest

from appliance.registry.device import Device, guess_device
from appliance.registry.machine import cgroup_bytes, machine_bytes, parse_probe, ram_bytes

GIB = 2**30


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    return tmp_path / "mount"


def limit(tmp_path: Path, membership: str) -> int | None:
    file = tmp_path / "cgroup"
    file.write_text(membership)
    return cgroup_bytes(file, tmp_path / "mount")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_cgroup_version_2_is_as_strict_as_its_strictest_ancestor(
    tmp_path: Path, mount: Path
) -> None:
    write(mount / "memory.max", str(9 * GIB))
    write(mount / "pod" / "memory.max", str(2 * GIB))
    write(mount / "pod" / "inner" / "memory.max", str(4 * GIB))

    assert limit(tmp_path, "0::/pod/inner\n") == 2 * GIB
    assert limit(tmp_path, "0::/\n") == 9 * GIB


def test_cgroup_version_2_without_a_limit_says_max(tmp_path: Path, mount: Path) -> None:
    write(mount / "pod" / "memory.max", "max")

    assert limit(tmp_path, "0::/pod\n") is None


def test_cgroup_version_1_has_a_memory_controller(tmp_path: Path, mount: Path) -> None:
    write(mount / "memory" / "pod" / "memory.limit_in_bytes", str(GIB))
    write(mount / "pod" / "memory.max", str(2 * GIB))

    assert limit(tmp_path, "9:cpu,cpuacct:/pod\n4:memory:/pod\n1:name=systemd:/\n") == GIB
    assert limit(tmp_path, "4:memory:/pod\n0::/pod\n") == GIB


def test_cgroup_path_of_the_host_means_what_is_mounted(tmp_path: Path, mount: Path) -> None:
    write(mount / "memory.max", str(3 * GIB))

    assert limit(tmp_path, "0::/kubepods/burstable/pod\n") == 3 * GIB
    assert limit(tmp_path, "0::/../other\n") == 3 * GIB


@pytest.mark.parametrize("text", ["", "0::/pod\n", "4:memory:/pod\n"])
def test_cgroup_that_is_not_there_sets_no_limit(tmp_path: Path, text: str) -> None:
    assert limit(tmp_path, text) is None


def test_ram_is_bounded_by_the_cgroup(tmp_path: Path, mount: Path) -> None:
    write(tmp_path / "cgroup", "0::/pod")
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    unbounded = ram_bytes(tmp_path / "cgroup", mount)
    write(mount / "pod" / "memory.max", "4096")

    assert unbounded == ram
    if guess_device() != "metal":
        assert ram_bytes(tmp_path / "cgroup", mount) == 4096


def test_probe_tells_the_memory_of_the_device() -> None:
    assert parse_probe(b'{"version": "1", "memory_bytes": 7}\n') == 7
    assert parse_probe(b'{"error": "no MLX"}\n') == 0
    assert parse_probe(b"Traceback") == 0


def test_machine_without_an_accelerator_has_its_ram() -> None:
    assert asyncio.run(machine_bytes("cpu")) == ram_bytes() > GIB // 4


@pytest.mark.parametrize("device", ["metal", "cuda"])
def test_machine_has_memory_whatever_is_guessed(device: Device) -> None:
    found = asyncio.run(machine_bytes(device))

    assert found > GIB // 4
    if guess_device() == "cpu":
        assert found == ram_bytes()
