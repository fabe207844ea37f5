"""Bundle what a GPU machine without network needs to run `engine.py`, in parts of under 60 MB.

usage: python ops/bench/bundle.py OUT [--tokenizer FOLDER] [--work FOLDER] [--no-peers]

Every part is a folder OUT/partN. The first ones hold this project's dependencies and MLX's CUDA
build; the last one, which may be left out, the peer vllm-mlx. The machine needs Python 3.12 on
x86-64, a C++ compiler for MLX, and NVIDIA's own libraries, which it has where PyTorch runs.
There, with the parts in folders side by side: `sh part1/unpack.sh DEST && . DEST/env.sh`.

`--tokenizer` is a model folder whose tokenizer goes along, for the folders of random weights.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "3.12"
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (35, 34, 31, 28, 27, 17, 12, 5)]
TARGET = {
    "python_version": PYTHON,
    "python_full_version": f"{PYTHON}.0",
    "sys_platform": "linux",
    "platform_machine": "x86_64",
    "extra": "",
}
# The CPU build, and what only building needs; NVIDIA's libraries are on the machine.
LEFT_OUT = ("mlx-cpu", "hatchling", "editables", "trove-classifiers", "nvidia-")
PEERS = ["mlx-lm>=0.31.3,<0.32", "fastapi", "uvicorn", "prometheus-client", "mcp", "jsonschema"]
PEERS += ["lm-format-enforcer", "llguidance", "pytz", "tabulate", "psutil", "requests", "pillow"]
PEERS += ["tqdm", "pyyaml", "transformers"]
PEERS_ALONE = ["vllm-mlx==0.6.0", "mlx-embeddings", "mlx-vlm"]
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
PART_BYTES = 58_000_000

UNPACK = """\
set -eu
mkdir -p "$1"
dest=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
for name in site peers; do
    set -- "$here"/part*/$name.tar.xz.*
    [ -e "$1" ] || continue
    cat "$@" | tar xJ -C "$dest"
done
libraries=$(python3 - <<'PYTHON'
import glob, os
try:
    import nvidia
except ImportError:
    folders = []
else:
    folders = [f for root in nvidia.__path__ for f in glob.glob(os.path.join(root, "*", "lib"))]
print(":".join(folders))
PYTHON
)
cat > "$dest/env.sh" <<ENV
export PYTHONPATH=$dest/site LD_LIBRARY_PATH=$libraries:\\${LD_LIBRARY_PATH:-}
export BENCH_TOKENIZER=$dest/site/tokenizer
ENV
[ ! -e "$dest/peers" ] || cat >> "$dest/env.sh" <<ENV
export BENCH_VLLM_MLX="env PYTHONPATH=$dest/peers:$dest/site python3 -m vllm_mlx.cli"
ENV
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="a model folder")
    parser.add_argument("--work", type=Path, help="keeps what was installed; default: nowhere")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        pins = locked()
        install(work / "site", pins, with_dependencies=False)
        if options.tokenizer:
            (work / "site/tokenizer").mkdir(exist_ok=True)
            for name in TOKENIZER:
                shutil.copy(options.tokenizer / name, work / "site/tokenizer")
        names = ["site"]
        if not options.no_peers:
            install_peers(work, pins)
            names.append("peers")
        pack(work, names, options.out)


def locked() -> list[str]:
    """Return the pins of the lock files that hold on the GPU machine."""
    pins = []
    for name in ("requirements.lock", "requirements-cuda.lock"):
        for line in (ROOT / name).read_text().splitlines():
            if line.startswith((" ", "#")) or not line.strip():
                continue
            each = Requirement(line.rstrip("\\ "))
            is_meant = each.marker is None or each.marker.evaluate(TARGET)
            if is_meant and not each.name.startswith(LEFT_OUT):
                pins.append(f"{each.name}{each.specifier}")
    return pins


def install(folder: Path, requirements: list[str], *, with_dependencies: bool) -> None:
    """Install wheels for the GPU machine into a folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--upgrade"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON]
    command += [word for platform in PLATFORMS for word in ("--platform", platform)]
    command += ["--target", str(folder)]
    if not with_dependencies:
        command.append("--no-deps")
    subprocess.run([*command, *requirements], check=True)


def install_peers(work: Path, pins: list[str]) -> None:
    """Install the peer into a folder, less what the first one has in the same version."""
    folder, scratch = work / "peers", work / "peers-full"
    constraints = work / "constraints"
    # mlx-lm is the one package that the two want in different versions.
    constraints.write_text("\n".join(pin for pin in pins if not pin.startswith("mlx-lm=")))
    with_constraints = ["--constraint", str(constraints), *PEERS]
    install(scratch, with_constraints, with_dependencies=True)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(scratch, folder)
    install(folder, PEERS_ALONE, with_dependencies=False)
    had = set(known(distributions(path=[str(work / "site")])))
    for each in distributions(path=[str(folder)]):
        if (each.name.lower(), each.version) in had or each.name.startswith(LEFT_OUT):
            for file in each.files or ():
                (folder / file).unlink(missing_ok=True)
    # An empty folder would still be found as a package.
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def known(found: Iterable[Distribution]) -> Iterable[tuple[str, str]]:
    return ((each.name.lower(), each.version) for each in found)


def pack(work: Path, names: list[str], out: Path) -> None:
    """Write each folder as a compressed archive in parts, and print what each part weighs."""
    shutil.rmtree(out, ignore_errors=True)
    number = 0
    for name in names:
        archive = work / f"{name}.tar.xz"
        with archive.open("wb") as file:
            tar = subprocess.Popen(
                ["tar", "-C", str(work), "-c", name],
                stdout=subprocess.PIPE,
            )
            subprocess.run(["xz", "-6", "-T0"], stdin=tar.stdout, stdout=file, check=True)
            assert tar.wait() == 0
        content = archive.read_bytes()
        archive.unlink()
        for start in range(0, len(content), PART_BYTES):
            number += 1
            part = out / f"part{number}"
            part.mkdir(parents=True)
            (part / "unpack.sh").write_text(UNPACK)
            piece = part / f"{name}.tar.xz.{start // PART_BYTES}"
            piece.write_bytes(content[start : start + PART_BYTES])
            print(json.dumps({"part": part.name, "file": piece.name, "mb": len_mb(piece)}))


def len_mb(path: Path) -> float:
    return round(path.stat().st_size / 1e6, 1)


if __name__ == "__main__":
    main()
