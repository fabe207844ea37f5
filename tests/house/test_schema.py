"""The schema in the repository is fresh and complete, and every example in config/ is valid."""

import json
from pathlib import Path

import jsonschema
import pytest

from appliance.manifest.builtin import load_builtin
from appliance.manifest.load import load_manifest
from appliance.manifest.schema import manifest_schema, manifest_schema_text, write_schemas
from appliance.manifest.tree import read_tree

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "config").rglob("*.yaml"))


def test_schema_files_are_fresh(tmp_path: Path) -> None:
    write_schemas(tmp_path)

    for made in tmp_path.iterdir():
        kept = ROOT / "schemas" / made.name
        assert made.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8"), made.name


def test_schema_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(manifest_schema())


def test_schema_describes_every_key() -> None:
    definitions = json.loads(manifest_schema_text())["$defs"]

    bare = [
        f"{owner}.{key}"
        for owner, section in definitions.items()
        for key, rule in section.get("properties", {}).items()
        if "description" not in rule | definitions.get(rule.get("$ref", "").split("/")[-1], {})
    ]

    assert bare == []


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_config_example_is_valid(path: Path) -> None:
    value = json.loads(json.dumps(read_tree(path.read_text(encoding="utf-8"), str).value))

    load_manifest(path, environ={})

    jsonschema.Draft202012Validator(manifest_schema()).validate(value)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_config_example_leads_editors_to_the_schema(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]

    reference = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / reference).resolve() == ROOT / "schemas" / "manifest.schema.json"


def test_all_options_shows_every_key() -> None:
    text = (ROOT / "config" / "examples" / "all-options.yaml").read_text(encoding="utf-8")
    definitions = json.loads(manifest_schema_text())["$defs"]

    keys = {key for section in definitions.values() for key in section.get("properties", {})}

    assert [key for key in sorted(keys) if f"{key}:" not in text] == []


def test_builtin_manifest_satisfies_the_schema() -> None:
    value = json.loads(json.dumps(read_tree(load_builtin().text, str).value))

    jsonschema.Draft202012Validator(manifest_schema()).validate(value)
