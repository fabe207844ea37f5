"""Serve an appliance with a key and models of both kinds, and see that nothing goes wrong in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from tests.appliance_server import RunningAppliance, running_appliance
from tests.chat.tiny import CHATML, write_model

MANIFEST = """\
version: 1
auth_keys:
  - {{name: ops, key: {{sha256: {digest}}}, roles: [admin, inference, metrics]}}
server:
  limits: {{request_timeout: 20s, max_body: 1MiB, max_output_tokens: 1000}}
models:
  - {{name: echo, source: "scripted:script.yaml", residency: {{preload: true}}}}
  - {{name: tiny, source: "path:{model}"}}
"""
KEY = {"authorization": "Bearer ops-key"}


@contextmanager
def guarded_appliance(folder: Path) -> Iterator[RunningAppliance]:
    """Serve a script, and a model in `folder` of which only the tokenizer is there."""
    template = CHATML + "{% if tools %}{{ tools | tojson }}{% endif %}"
    (write_model(folder, template) / "config.json").write_text("{}")
    manifest = MANIFEST.format(digest=sha256(b"ops-key").hexdigest(), model=folder)
    with running_appliance(manifest, {"script.yaml": "[]\n"}) as running:
        yield running
        assert running.process.poll() is None
        assert [line for line in running.logs() if "crashed" in line.get("event", "")] == []
        assert running.errors() == ""
