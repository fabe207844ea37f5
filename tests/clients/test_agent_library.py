"""An agent of OpenAI's Agents SDK carries out a whole task, in both dialects, streamed and not."""

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.appliance_server import RunningAppliance, running_appliance
from tests.dialect.case import call_text
from tests.dialect.script import cut, rule, script_text

pytestmark = [pytest.mark.registry, pytest.mark.timeout(400)]

PACKAGE = "openai-agents==0.24.0"

PINNED = ("httpx", "openai", "pydantic", "pydantic_core", "typing_extensions")
"""What it needs and this environment has: the same versions are installed beside it."""

MANIFEST = """\
version: 1
models:
  - name: agent
    source: scripted:script.yaml
    chat: {tool_parser: hermes, reasoning_parser: qwen3}
    residency: {preload: true}
"""

PROGRAM = '''\
import asyncio
import sys
from pathlib import Path

from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool


@function_tool
def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content, encoding="utf-8")
    return "written"


async def main(url: str, uses_responses: bool, is_streamed: bool) -> None:
    agent = Agent("writer", instructions="Be brief.", model="agent", tools=[write_file])
    provider = OpenAIProvider(base_url=url, api_key="any", use_responses=uses_responses)
    config = RunConfig(model_provider=provider, tracing_disabled=True)
    if is_streamed:
        run = Runner.run_streamed(agent, "Create hello.txt.", run_config=config)
        async for _ in run.stream_events():
            pass
    else:
        run = await Runner.run(agent, "Create hello.txt.", run_config=config)
    print(run.final_output)


asyncio.run(main(sys.argv[1], sys.argv[2] == "responses", sys.argv[3] == "streamed"))
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package, and with the program."""
    folder = tmp_path_factory.mktemp("installed")
    versions = {each.name: each.version for each in importlib.metadata.distributions()}
    pins = "\n".join(f"{name}=={version}" for name, version in versions.items() if name in PINNED)
    (folder / "pins.txt").write_text(pins, encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    subprocess.run([*command, "-c", str(folder / "pins.txt"), PACKAGE], check=True, timeout=300)
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def appliance() -> Iterator[RunningAppliance]:
    call = call_text("write_file", {"path": "hello.txt", "content": "Hello. ✓\n"})
    says = {"^Create": f"<think>\nA file.\n</think>\n\n{call}", "^written$": "All done."}
    script = script_text(rule(match, cut(raw, 9)) for match, raw in says.items())
    with running_appliance(MANIFEST, {"script.yaml": script}) as running:
        yield running


@pytest.mark.parametrize("streaming", ["whole", "streamed"])
@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_agent_creates_a_file_by_a_tool_call(
    appliance: RunningAppliance, installed: Path, tmp_path: Path, dialect: str, streaming: str
) -> None:
    arguments = [str(installed / "program.py"), f"{appliance.url}/v1", dialect, streaming]

    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "All done.\n"
    assert (tmp_path / "hello.txt").read_text(encoding="utf-8") == "Hello. ✓\n"
