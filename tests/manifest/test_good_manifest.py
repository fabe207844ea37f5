"""What a right manifest means, and that editors' schema takes every one of them."""

import hashlib
import json
from pathlib import Path

import jsonschema
import pytest

from appliance.manifest.load import LoadedManifest, load_manifest, load_manifest_text
from appliance.manifest.quantity import Share
from appliance.manifest.schema import manifest_schema
from appliance.manifest.spec import ModelSpec
from appliance.manifest.tree import read_tree

TESTDATA = Path(__file__).parent / "testdata"
GOOD = sorted(path.name.removesuffix(".good.yaml") for path in TESTDATA.glob("*.good.yaml"))
ENVIRON = {"TEAM_KEY": "variable-key", "DRAIN": "90s", "NAME": "chat"}


def test_anchors_and_merge_keys_bring_in_values() -> None:
    a, b, c = good("anchors").manifest.models

    assert a.engine.max_sequences == 4
    assert (b.name, b.source, b.sampling) == ("b", "path:/a", a.sampling)
    assert (c.name, c.source, c.sampling) == ("c", "path:/c", a.sampling)


def test_defaults_fill_what_a_model_does_not_say() -> None:
    plain, _ = good("defaults").manifest.models

    assert plain.engine.max_sequences == 4
    assert plain.engine.max_context_tokens == 4096
    assert plain.sampling.temperature == 0.5
    assert plain.chat.template_kwargs["tags"] == ("a", "b")


def test_defaults_yield_to_what_a_model_says() -> None:
    _, own = good("defaults").manifest.models

    assert own.engine.max_sequences == 4
    assert own.engine.max_context_tokens is None
    assert (own.sampling.temperature, own.sampling.top_p) == (0, 0.9)
    assert own.chat.template_kwargs == {
        "enable_thinking": False,
        "tags": ("c",),
        "style": {"tone": "dry", "length": "short"},
    }


def test_merged_model_equals_one_that_says_everything_itself() -> None:
    merged, _ = good("defaults").manifest.models
    spelled = ModelSpec.model_validate(merged.model_dump())

    assert merged == spelled


def test_plain_scalars_are_those_of_yaml_1_2() -> None:
    (model,) = good("scalars").manifest.models

    assert model.name == "no"
    assert model.aliases == ("yes", "on", "off", "1:30", "2024-01-01", "y", "1_000")
    assert model.engine.max_sequences == 10
    kwargs = {"day": "2024-01-01", "mask": 31, "ratio": 0.5, "big": 1000.0, "nothing": None}
    assert model.chat.template_kwargs == kwargs


def test_variables_expand_in_values_and_not_in_keys() -> None:
    manifest = good("variables").manifest

    (model,) = manifest.models
    assert manifest.server.limits.max_body == 16 * 2**20
    assert manifest.server.drain == 90.0
    assert (model.name, model.source) == ("chat", "path:/srv/models/chat")
    kwargs = {"price": "$5", "plain": "$5", "literal": "${NAME}", "${key}": 1}
    assert model.chat.template_kwargs == kwargs


def test_keys_become_digests_by_name() -> None:
    digests = good("keys").key_digests

    assert digests == {
        "by-variable": hashlib.sha256(b"variable-key").digest(),
        "by-file": hashlib.sha256(b"file-key").digest(),
        "by-digest": hashlib.sha256(b"abc").digest(),
    }


def test_keys_compete_by_weight_and_priority() -> None:
    first, second, _ = good("keys").manifest.auth_keys

    assert (first.priority, first.weight) == (-5, 0.5)
    assert (second.priority, second.weight) == (0, 1.0)


def test_simple_engine_has_one_slot_whatever_else_it_says() -> None:
    simple, batched = good("engines").manifest.models

    assert (simple.engine.num_slots, simple.engine.step_timeout) == (1, 90.0)
    assert (batched.engine.num_slots, batched.engine.step_timeout) == (8, 60.0)


def test_server_says_which_pages_and_models_and_how_much_is_logged() -> None:
    server = good("served").manifest.server

    assert server.endpoints.chat.models == ("chat", "default")
    assert server.cors.origins == ("https://chat.lan:3000", "http://[::1]:8080", "*")
    assert server.log_level == "debug"
    assert server.tls is not None
    assert (server.tls.cert, server.tls.key) == (Path("tls/cert.pem"), Path.home() / "key.pem")


def test_memory_and_residency_are_numbers() -> None:
    manifest = good("served").manifest

    (model,) = manifest.models
    assert (manifest.memory.budget, manifest.memory.reserve) == (Share(0.625), 2**30)
    assert (manifest.memory.contention.wait, manifest.memory.contention.then) == (0, "fail")
    assert model.engine.memory == 24 * 2**30
    assert (model.residency.idle_unload, model.residency.priority) == (900, -5)
    assert (model.residency_wish, model.is_profile) == ("must", False)


def test_verify_has_prompts_and_what_follows_a_failure() -> None:
    (model,) = good("served").manifest.models

    (prompt,) = model.verify.prompts
    assert (prompt.ask, prompt.expect, prompt.max_tokens) == ("2+2?", r"\b4\b", 8)
    assert model.verify.on_failure == "fail"


def test_loaded_manifest_shows_neither_values_nor_text() -> None:
    shown = repr(good("keys")) + repr(good("keys").manifest.auth_keys) + str(good("variables"))

    for secret in ("variable-key", "file-key", "BA7816BF", "ba7816bf", "/srv/models"):
        assert secret not in shown


def test_loaded_manifest_knows_its_file_folder_and_text() -> None:
    path = TESTDATA / "anchors.good.yaml"

    loaded = load_manifest(path)

    assert (loaded.file, loaded.folder) == (path, TESTDATA)
    assert loaded.text == path.read_text(encoding="utf-8")


def test_byte_order_mark_and_windows_lines_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\r\nmodels:\r\n  - {name: a, source: 'path:/m'}\r\n")

    assert load_manifest(path).manifest.models[0].name == "a"


def test_least_manifest_has_every_default() -> None:
    manifest = load_manifest_text("version: 1", name="m", folder=Path("/")).manifest

    assert manifest.models == ()
    assert manifest.server.limits.max_body == 32 * 2**20
    assert manifest.server.drain == 30.0


@pytest.mark.parametrize("name", GOOD)
def test_schema_takes_what_the_loader_takes(name: str) -> None:
    text = (TESTDATA / f"{name}.good.yaml").read_text(encoding="utf-8")
    value = json.loads(json.dumps(read_tree(text, str).value))

    jsonschema.Draft202012Validator(manifest_schema()).validate(value)


def good(name: str) -> LoadedManifest:
    return load_manifest(TESTDATA / f"{name}.good.yaml", environ=ENVIRON)
