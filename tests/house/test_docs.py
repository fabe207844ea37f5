"""Check that what the documents tell people to run exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
JUSTFILE = (ROOT / "justfile").read_text()
RECIPE = re.compile(r"^([a-z][a-z-]*)[^\n:=]*:(?!=)", re.MULTILINE)


def commands_of_cli() -> str:
    program = "from appliance.cli.main import main; main()"
    command = [sys.executable, "-c", program, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("script", ["ops/up", "ops/test", "ops/check", "ops/lock", ".ci/run"])
def test_script_is_executable(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\b(?:ops|config)/[\w./-]*\w", README))))
def test_readme_names_files_that_exist(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", README))))
def test_readme_links_to_files_that_exist(link: str) -> None:
    assert (ROOT / link).exists()


def test_readme_names_commands_that_exist() -> None:
    known = commands_of_cli()
    named = set(re.findall(r"vllm-mlx ([a-z]+)", README))

    assert named
    assert all(re.search(rf"^ +{name}\b", known, re.MULTILINE) for name in named)


def test_justfile_explains_every_recipe() -> None:
    lines = JUSTFILE.splitlines()
    starts = [number for number, line in enumerate(lines) if RECIPE.match(line)]

    assert starts
    assert all(lines[number - 1].startswith("# ") for number in starts)


def test_justfile_runs_scripts_that_exist() -> None:
    named = set(re.findall(r"\bops/[a-z/]+(?:\.py)?", JUSTFILE))

    assert named
    assert all((ROOT / name).exists() for name in named)
