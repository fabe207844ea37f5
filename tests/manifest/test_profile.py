"""A profile is its base with settings of its own."""

from pathlib import Path

from appliance.manifest.load import load_manifest
from appliance.manifest.spec import ModelSpec

TESTDATA = Path(__file__).parent / "testdata"


def test_profile_has_what_its_base_needs_a_load_for() -> None:
    fast, chat = models()

    assert (fast.is_profile, chat.is_profile) == (True, False)
    assert (fast.source, fast.kind, fast.engine) == (chat.source, chat.kind, chat.engine)
    assert fast.load_key() == chat.load_key()


def test_profile_is_in_memory_when_its_base_is() -> None:
    fast, chat = models()

    assert (fast.residency, fast.verify, fast.cache) == (chat.residency, chat.verify, chat.cache)
    assert fast.residency_wish == "must"


def test_profile_wins_over_base_and_base_over_defaults() -> None:
    fast, chat = models()

    sampling = fast.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0, 0.9, 7)
    assert (chat.sampling.temperature, chat.sampling.top_p) == (0.5, 0.9)
    kwargs = {"tone": "dry", "length": "long", "enable_thinking": True}
    assert fast.chat.template_kwargs == kwargs


def test_profile_keeps_its_names_and_limits() -> None:
    fast, chat = models()

    assert (fast.name, fast.aliases, fast.limits.queue) == ("fast", ("quick",), 2)
    assert (chat.name, chat.aliases, chat.limits.queue) == ("chat", (), None)
    assert fast.policy_key() != chat.policy_key()


def models() -> tuple[ModelSpec, ...]:
    return load_manifest(TESTDATA / "profiles.good.yaml").manifest.models
