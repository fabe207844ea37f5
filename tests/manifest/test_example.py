"""What the example of all options says of this build is true."""

from pathlib import Path

import jsonschema
import pytest

from appliance.errors import ManifestError
from appliance.manifest.load import load_manifest, load_manifest_text
from appliance.manifest.schema import manifest_schema
from appliance.manifest.spec.section import NOT_YET
from appliance.manifest.tree import read_tree

EXAMPLE = Path(__file__).parents[2] / "config" / "examples" / "all-options.yaml"
LATER = {
    *("embeddings", "audio", "mcp", "trusted_hosts", "media", "limits"),
    *("kv_quantization", "adapter", "draft", "max_concurrent"),
    *("warm_prompts", "mcp_servers"),
}


def test_lines_of_later_builds_are_right_and_refused_one_by_one() -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("#~ ", "")

    with pytest.raises(ManifestError) as caught:
        load_manifest_text(text, name="m", folder=EXAMPLE.parent, environ={})

    told = [problem.reason for problem in caught.value.problems]
    assert sorted(told) == sorted(f"'{key}' {NOT_YET}" for key in LATER)


def test_lines_of_later_builds_are_right_to_editors() -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("#~ ", "")

    value = as_json(read_tree(text, str).value)

    jsonschema.Draft202012Validator(manifest_schema()).validate(value)


def test_schema_says_of_later_keys_that_they_are() -> None:
    definitions = manifest_schema()["$defs"]

    assert isinstance(definitions, dict)
    description = definitions["EngineSpec"]["properties"]["adapter"]["description"]
    assert description.endswith(f"This {NOT_YET}.")


def test_profile_of_the_example_has_what_its_model_says() -> None:
    chat, fast = load_manifest(EXAMPLE, environ={}).manifest.models

    assert (fast.is_profile, fast.source) == (True, chat.source)
    assert (fast.sampling.temperature, fast.sampling.top_p) == (0, 0.95)


def as_json(value: object) -> object:
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return value
