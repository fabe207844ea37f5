"""One scripted appliance for every contract test, spoken to by the official SDK."""

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.appliance_server import RunningAppliance, running_appliance

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


@pytest.fixture(scope="session")
def appliance() -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, {"script.yaml": SCRIPT}) as running:
        yield running


@pytest.fixture
def client(appliance: RunningAppliance) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{appliance.url}/v1", api_key="any", max_retries=0) as openai:
        yield openai
