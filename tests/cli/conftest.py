"""Give the command's tests one echoing appliance, which they share."""

from collections.abc import Iterator

import pytest

from tests.appliance_server import RunningAppliance, running_appliance

_SCRIPT = """\
- match: "count"
  pieces: ["one ", "two ", "three"]
- match: "endless"
  pieces: ["word "]
  piece_delay: 20ms
  repeat: 100000
- match: "break"
  pieces: ["half ", "an ", "answer"]
  piece_delay: 50ms
  fail_at: 2
"""

_MANIFEST = """\
version: 1
auth_keys:
  - {name: tester, key: {env: TESTER_KEY}}
models:
  - name: echo
    aliases: [parrot]
    source: scripted:script.yaml
    residency: {preload: true}
"""

TESTER_KEY = "a-key-for-tests"


@pytest.fixture(scope="session")
def echo() -> Iterator[RunningAppliance]:
    """An appliance with one scripted model, and one key for TCP: TESTER_KEY."""
    with running_appliance(
        _MANIFEST, {"script.yaml": _SCRIPT}, env={"TESTER_KEY": TESTER_KEY}
    ) as appliance:
        yield appliance
