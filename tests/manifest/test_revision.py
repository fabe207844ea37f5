"""A revision is a digest of what a manifest means, an etag one of how it is written."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.manifest.load import LoadedManifest, load_manifest_text
from appliance.manifest.spec import ModelSpec
from appliance.manifest.tree import read_tree
from tests.examples import examples

TESTDATA = Path(__file__).parent / "testdata"
TEXT = """\
version: 1
server: {drain: 5s, heartbeat: 2s}
auth_keys: [{name: k, key: {env: KEY}, models: [a]}]
models:
  - {name: a, source: "path:${FOLDER}", chat: {template_kwargs: {x: 1, y: 2}}}
"""
LATE_DRAIN = "{heartbeat: 2s, drain: 5s}"
SAME = {
    "comment": lambda text: f"# mine\n{text}# end\n",
    "order of keys": lambda text: text.replace(
        "drain: 5s, heartbeat: 2s", "heartbeat: 2s, drain: 5s"
    ),
    "order deep down": lambda text: text.replace("x: 1, y: 2", "y: 2, x: 1"),
    "unit": lambda text: text.replace("5s", "5000ms"),
    "default said": lambda text: f"{text}memory: {{budget: 80%}}\n",
    "source of a key": lambda text: text.replace("env: KEY", "env: SAME_KEY"),
    "source of a value": lambda text: text.replace("${FOLDER}", "/m"),
}
OTHER = {
    "value": lambda text: text.replace("5s", "6s"),
    "variable": lambda text: text.replace("${FOLDER}", "${OTHER}"),
    "key": lambda text: text.replace("env: KEY", "env: OTHER"),
    "another model": lambda text: f"{text}  - {{name: b, source: 'path:/m'}}\n",
    "template value": lambda text: text.replace("y: 2", "y: 3"),
}
ENVIRON = {"KEY": "hunter2", "SAME_KEY": "hunter2", "OTHER": "other", "FOLDER": "/m"}


@pytest.mark.parametrize("edit", SAME.values(), ids=SAME)
def test_revision_stays_where_the_meaning_does(edit: Callable[[str], str]) -> None:
    before, after = loaded(TEXT), loaded(edit(TEXT))

    assert after.etag != before.etag
    assert after.revision == before.revision


@pytest.mark.parametrize("edit", OTHER.values(), ids=OTHER)
def test_revision_changes_with_the_meaning(edit: Callable[[str], str]) -> None:
    assert loaded(edit(TEXT)).revision != loaded(TEXT).revision


def test_revision_of_the_same_text_changes_with_a_variable() -> None:
    other = load_manifest_text(
        TEXT, name="m", folder=Path("/"), environ=ENVIRON | {"KEY": "hunter3"}
    )

    assert other.etag == loaded(TEXT).etag
    assert other.revision != loaded(TEXT).revision


def test_revision_and_etag_are_short_and_hold_no_secret() -> None:
    held = loaded(TEXT)

    assert len(held.revision) == len(held.etag) == 16
    assert "hunter2" not in f"{held!r} {held.revision} {held.etag}"


def test_value_said_in_defaults_means_the_same_as_in_every_model() -> None:
    model = "models: [{name: a, source: 'path:/m'%s}]\n"
    inside = loaded("version: 1\n" + model % ", engine: {max_sequences: 4}")
    above = loaded("version: 1\ndefaults: {engine: {max_sequences: 4}}\n" + model % "")

    assert inside.revision == above.revision


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from(["served", "profiles", "defaults"]), st.randoms(use_true_random=False))
def test_no_order_of_keys_changes_the_revision(name: str, chance: random.Random) -> None:
    text = (TESTDATA / f"{name}.good.yaml").read_text(encoding="utf-8")

    shuffled = json.dumps(shuffled_keys(read_tree(text, str).value, chance))

    assert loaded(shuffled).revision == loaded(text).revision


@pytest.mark.parametrize(
    ("change", "needs_load"),
    [
        ({"source": "path:/n"}, True),
        ({"kind": "text"}, True),
        ({"engine": {"max_sequences": 2}}, True),
        ({"engine": {"memory": 5}}, True),
        ({"engine": {"step_timeout": 5}}, False),
        ({"aliases": ("b",)}, False),
        ({"sampling": {"temperature": 0}}, False),
        ({"chat": {"template_kwargs": {"x": 1}}}, False),
        ({"residency": {"pin": True}}, False),
        ({"limits": {"queue": 1}}, False),
        ({"verify": {"prompts": ({"ask": "a", "expect": "b"},)}}, False),
    ],
)
def test_change_shows_in_one_key_of_a_model(change: dict[str, object], needs_load: bool) -> None:
    plain: dict[str, object] = {"name": "a", "source": "path:/m"}
    before, after = ModelSpec.model_validate(plain), ModelSpec.model_validate(plain | change)

    assert (before.load_key() != after.load_key()) is needs_load
    assert (before.policy_key() != after.policy_key()) is not needs_load


def test_sources_that_lead_to_the_same_have_one_load_key() -> None:
    home = ModelSpec(name="a", source="path:~/m")
    spelled = ModelSpec(name="b", source=f"path:{Path.home()}/m")

    assert home.load_key() == spelled.load_key()


def loaded(text: str) -> LoadedManifest:
    return load_manifest_text(text, name="m", folder=Path("/"), environ=ENVIRON)


def shuffled_keys(value: object, chance: random.Random) -> object:
    if isinstance(value, tuple):
        return [shuffled_keys(item, chance) for item in value]
    if isinstance(value, dict):
        items = [(key, shuffled_keys(item, chance)) for key, item in value.items()]
        chance.shuffle(items)
        return dict(items)
    return value
