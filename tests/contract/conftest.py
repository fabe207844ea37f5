"""Appliances that many contract tests ask: a scripted one, and one with a real model."""

from collections.abc import Iterator

import httpx
import pytest
from openai import OpenAI

from tests.appliance_server import RunningAppliance, running_appliance
from tests.packages import smollm2_directory

MANIFEST = """\
version: 1
server:
  heartbeat: 200ms
  limits: {max_body: 1MiB, max_output_tokens: 1000, body_timeout: 2s}
models:
  - name: chat
    aliases: [default, org/chat]
    source: scripted:script.yaml
    residency: {preload: true}
  - {name: broken, source: "scripted:absent.yaml"}
  - name: plain
    source: scripted:choices.yaml
    chat: &none {reasoning_parser: none, tool_parser: none}
  - {name: thinker, source: "scripted:choices.yaml", chat: {<<: *none, reasoning_parser: qwen3}}
  - {name: caller, source: "scripted:choices.yaml", chat: {<<: *none, tool_parser: hermes}}
  - name: agent
    source: scripted:choices.yaml
    chat: {reasoning_parser: qwen3, tool_parser: hermes}
  - {name: guarded, like: agent, chat: {repetition_guard: true}}
  - {name: real, source: "path:absent"}
"""

SCRIPT = """\
- match: "capital"
  pieces: ["The capital ", "of France ", "is Par", "is."]
- match: "unicode"
  pieces: ["a\\u2028b", "\\r\\n", "👋", "é\\n\\n", "data: x"]
- match: "cut"
  pieces: ["one "]
  finish: length
- match: "fail at once"
  pieces: ["never"]
  fail_at: 0
- match: "fail later"
  pieces: ["good ", "bad ", "worse "]
  fail_at: 2
- match: "prefill"
  pieces: ["late"]
  first_delay: 1500ms
- match: "forever"
  pieces: ["tick "]
  piece_delay: 20ms
  repeat: 100000
- match: "stuck"
  pieces: ["x"]
  first_delay: 1h
- match: "many"
  pieces: ["word "]
  repeat: 5000
- match: "silent"
  pieces: []
"""

CHOICES = """\
- match: "hello"
  pieces: ["Hel", "lo."]
- match: "twice"
  pieces:
    - "<think>"
    - "it is"
    - " sunny</think>I look."
    - '<tool_call>{"name": "weather", "arguments": {"city": "Kö'
    - 'ln", "days": [1, '
    - '2]}}</tool_call><tool_call>{"name": "now", "arg'
    - 'uments": {}}</tool_call>'
- match: "only"
  pieces: ['<tool_call>{"name": "now", "arguments": {}}</tool_call>']
- match: "circles"
  pieces: ["check "]
  repeat: 900
  piece_delay: 1ms
- match: "long"
  pieces: ["word "]
  repeat: 20
"""


@pytest.fixture(scope="session")
def appliance() -> Iterator[RunningAppliance]:
    files = {"script.yaml": SCRIPT, "choices.yaml": CHOICES}
    with running_appliance(MANIFEST, files) as running:
        yield running


@pytest.fixture(scope="session")
def http(appliance: RunningAppliance) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=appliance.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def client(appliance: RunningAppliance) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{appliance.url}/v1", api_key="any", max_retries=0) as openai:
        yield openai


@pytest.fixture(scope="session")
def smollm2() -> Iterator[RunningAppliance]:
    """Serve a small real model as `chat`; it takes half a minute to load where cores are few."""
    manifest = f"""\
version: 1
models:
  - name: chat
    source: path:{smollm2_directory()}
    engine: {{prefill_chunk_tokens: 32}}
    residency: {{preload: true}}
    sampling: {{temperature: 0}}
"""
    with running_appliance(manifest, {}, is_ready=False) as running:
        running.wait_ready(120)
        yield running
