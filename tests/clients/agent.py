"""Describe agents that are installed from a registry: how each is set up, and how it is asked."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.dialect.case import call_text

TASK = "Create hello.txt, which greets in one line."
GREETING = "Hello from the agent. ✓\n"


@dataclass(frozen=True)
class Agent:
    """A program; its functions take the appliance's address or the folder it works in.

    `files` lie in its home, `call` is what the model wants first, and `arguments` follow the name
    of the program that the package brings.
    """

    package: str
    program: str
    arguments: tuple[str, ...]
    call: Callable[[Path], str]
    environment: Callable[[str], dict[str, str]] = lambda url: {}
    files: Callable[[str], dict[str, str]] = lambda url: {}
    apis: frozenset[str] = field(default=frozenset({"chat"}))


def _codex_files(url: str) -> dict[str, str]:
    return {
        ".codex/config.toml": f"""\
model = "agent"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "AGENT_KEY"
"""
    }


def _opencode_files(url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "any"},
        "models": {"agent": {"name": "agent"}},
    }
    settings = {
        "share": "disabled",
        "autoupdate": False,
        "permission": {"edit": "allow"},
        "provider": {"local": provider},
        "model": "local/agent",
        "small_model": "local/agent",
    }
    return {".config/opencode/opencode.json": json.dumps(settings)}


CLAUDE_CODE = Agent(
    package="@anthropic-ai/claude-code@2.1.197",
    program="claude",
    arguments=("-p", TASK, "--model", "agent", "--allowedTools", "Write"),
    call=lambda folder: call_text(
        "Write", {"file_path": str(folder / "hello.txt"), "content": GREETING}
    ),
    environment=lambda url: {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "any",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    },
    apis=frozenset({"messages"}),
)
CODEX = Agent(
    package="@openai/codex@0.171.0",
    program="codex",
    arguments=(
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        TASK,
    ),
    call=lambda folder: call_text(
        "exec_command", {"cmd": f"printf '%s' '{GREETING}' > '{folder / 'hello.txt'}'"}
    ),
    environment=lambda url: {"AGENT_KEY": "any"},
    files=_codex_files,
    apis=frozenset({"responses"}),
)
OPENCODE = Agent(
    package="opencode-ai@1.18.33",
    program="opencode",
    arguments=("run", TASK),
    call=lambda folder: call_text(
        "write", {"filePath": str(folder / "hello.txt"), "content": GREETING}
    ),
    environment=lambda url: {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    },
    files=_opencode_files,
)
AGENTS = (CLAUDE_CODE, CODEX, OPENCODE)
