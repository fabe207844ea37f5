"""Agents as real programs carry out a whole task: they call a tool, and hear of its result."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.appliance_server import RunningAppliance, running_appliance
from tests.clients.agent import AGENTS, GREETING, TASK, Agent
from tests.dialect.script import cut, rule, script_text

pytestmark = [pytest.mark.npm, pytest.mark.timeout(600)]

MANIFEST = """\
version: 1
models:
  - name: agent
    source: scripted:script.yaml
    chat: {tool_parser: hermes, reasoning_parser: qwen3}
    residency: {preload: true}
"""


def script(agent: Agent, folder: Path) -> str:
    """Return a script that calls for the file, and is done with whatever comes back."""
    says = {TASK.replace(".", "\\."): f"<think>\nA file.\n</think>\n\nNow.\n{agent.call(folder)}"}
    says[""] = "All done."
    return script_text(rule(match, cut(raw, 9)) for match, raw in says.items())


def install(agent: Agent, folder: Path) -> Path:
    """Install an agent into a folder of its own and return its program."""
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder)]
    subprocess.run(["npm", "install", *options, agent.package], check=True, timeout=500)
    return folder / "node_modules" / ".bin" / agent.program


def work(agent: Agent, program: Path, url: str, home: Path) -> str:
    """Let an agent carry out the task in `home`/work and return what it printed."""
    for name, text in agent.files(url).items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), **agent.environment(url)}
    done = subprocess.run(
        [program, *agent.arguments],
        cwd=home / "work",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def finished_requests(appliance: RunningAppliance) -> list[dict[str, Any]]:
    return [line for line in appliance.logs() if line.get("event") == "request_finished"]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.program)
def test_agent_creates_a_file_by_a_tool_call(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "home" / "work").mkdir(parents=True)
    file = tmp_path / "home" / "work" / "hello.txt"
    program = install(agent, tmp_path / "installed")

    with running_appliance(MANIFEST, {"script.yaml": script(agent, file.parent)}) as appliance:
        printed = work(agent, program, appliance.url, tmp_path / "home")
        requests = finished_requests(appliance)

    assert file.read_text(encoding="utf-8") == GREETING
    assert "All done." in printed
    assert {line["api"] for line in requests} == agent.apis
    assert [line["error"] for line in requests] == [None] * len(requests)
    assert "tool_calls" in {line["finish_reason"] for line in requests}
