"""A key's share and priority go from the manifest to what it sends."""

from pathlib import Path

from appliance.api.access import key_ring
from appliance.api.auth import ANYBODY
from appliance.chat.request import Thinking
from appliance.manifest.load import load_manifest_text
from appliance.pipeline.sender import Sender

MANIFEST = """\
version: 1
auth_keys:
  - {name: team, key: {env: TEAM_KEY}, priority: -5, weight: 0.5}
"""


def test_key_brings_its_share_and_priority() -> None:
    environ = {"TEAM_KEY": "secret"}
    loaded = load_manifest_text(MANIFEST, name="m", folder=Path("/"), environ=environ)

    caller = key_ring(loaded).find(b"secret")

    assert caller is not None
    assert caller.sender == Sender("team", 0.5, -5)


def test_key_brings_its_wishes_about_thoughts() -> None:
    wishes = "thinking: {enabled: true, effort: low, budget: 64}"
    text = MANIFEST.replace("weight: 0.5", wishes)
    loaded = load_manifest_text(text, name="m", folder=Path("/"), environ={"TEAM_KEY": "secret"})

    caller = key_ring(loaded).find(b"secret")

    assert caller is not None
    assert caller.sender.thinking == Thinking(True, "low", is_firm=False, budget=64)


def test_anybody_shares_alike() -> None:
    assert ANYBODY.sender == Sender("", 1.0, 0)


def test_request_may_only_lower_its_priority() -> None:
    sender = Sender(priority=3)

    assert [sender.lowered_priority(asked) for asked in (None, 2, 4, -9)] == [3, 2, 3, -9]
