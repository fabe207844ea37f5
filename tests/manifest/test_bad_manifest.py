"""Every way a manifest can be wrong, and the exact words that the operator reads."""

import json
import traceback
from pathlib import Path

import jsonschema
import pytest

from appliance.errors import ManifestError
from appliance.manifest.load import load_manifest
from appliance.manifest.node import TreeError
from appliance.manifest.schema import manifest_schema
from appliance.manifest.spec.section import NOT_YET
from appliance.manifest.tree import read_tree

TESTDATA = Path(__file__).parent / "testdata"
# What the loader says of every *.bad.yaml in the folder, word for word.
EXPECTED = (TESTDATA / "problems.txt").read_text(encoding="utf-8").splitlines()
BAD = sorted(path.name for path in TESTDATA.glob("*.bad.yaml"))
SCHEMA = jsonschema.Draft202012Validator(manifest_schema())
ENVIRON = {"KEY_A": "hunter2", "KEY_B": "hunter3", "KEY_C": "hunter 4"}

# Well-formed YAML that the JSON Schema cannot refuse: only the loader knows.
BEYOND_SCHEMA = {
    "repeated_key",
    "repeated_section",
    "repeated_model",
    "repeated_alias",
    "alias_is_own_name",
    "repeated_key_name",
    "same_key_twice",
    "key_for_unknown_model",
    "merge_of_text",
    "number_as_key",
    "list_as_key",
    "unset_variable",
    "broken_variable",
    "expanded_value_wrong",
    "expanded_name_wrong",
    "huge_size",
    "zero_heartbeat",
    "zero_limits",
    "zero_step_timeout",
    "bad_hf_source",
    "bad_wheel_source",
    "wheel_member_climbs",
    "unknown_home",
    "unset_key_variable",
    "missing_key_file",
    "empty_key_file",
    "folder_as_key_file",
    "unknown_home_of_tls",
    "door_for_unknown_model",
    "zero_budget",
    "budget_over_all",
    "cache_policy_none_of_other_kind",
    "cache_of_unknown_policy",
    "profile_of_unknown",
    "profile_of_itself",
    "profile_of_alias",
    "profile_of_profile",
    "profile_takes_a_name",
    "expanded_profile_wrong",
    "expanded_pattern_wrong",
    "later_key_in_defaults",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_manifest_names_line_path_and_reason(name: str) -> None:
    expected = [line for line in EXPECTED if line.startswith(f"{name}:")]

    problems = problems_of(TESTDATA / name)

    assert [problem.removeprefix(f"{TESTDATA}/") for problem in problems] == expected


@pytest.mark.parametrize("name", BAD)
def test_bad_manifest_never_shows_a_secret_or_an_expanded_value(name: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_manifest(TESTDATA / name, environ=ENVIRON)

    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value.problems)

    assert "hunter" not in told


@pytest.mark.parametrize("name", BAD)
def test_bad_manifest_is_refused_by_the_schema_too_where_it_can(name: str) -> None:
    text = (TESTDATA / name).read_text(encoding="utf-8")
    try:
        value = read_tree(text, str).value
    except TreeError:
        return

    is_valid = SCHEMA.is_valid(json.loads(json.dumps(value)))

    told = [line for line in EXPECTED if line.startswith(f"{name}:")]
    is_only_later = all(line.endswith(f"' {NOT_YET}") for line in told)
    assert is_valid == (is_only_later or name.removesuffix(".bad.yaml") in BEYOND_SCHEMA)


def test_expected_problems_are_all_of_files_that_exist() -> None:
    named = {line.partition(":")[0] for line in EXPECTED}

    assert named == set(BAD)


def test_missing_file_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"

    assert problems_of(path) == [f"{path}: cannot be read: No such file or directory"]


def test_folder_is_one_problem(tmp_path: Path) -> None:
    assert problems_of(tmp_path) == [f"{tmp_path}: cannot be read: Is a directory"]


def test_other_encoding_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("version: 1\n# café\n".encode("latin-1"))

    assert problems_of(path) == [f"{path}:2: is not UTF-8 text"]


def test_oversized_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_text("# much\n" * 50_000)

    assert problems_of(path) == [f"{path}: is longer than 262144 characters"]


def problems_of(path: Path) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load_manifest(path, environ=ENVIRON)
    return [str(problem) for problem in caught.value.problems]
