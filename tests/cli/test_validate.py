"""`vllm-mlx validate` and `vllm-mlx schema`: what goes where, and the exit codes."""

import json
from pathlib import Path

import pytest

from appliance.cli.schema import run_schema
from appliance.cli.validate import run_validate
from appliance.manifest.schema import manifest_schema


def test_validate_says_that_a_manifest_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("version: 1\nmodels: [{name: a, source: 'path:/m'}]\n")

    code = run_validate(path, as_json=False)

    assert (code, capsys.readouterr()) == (0, (f"{path}: valid, 1 model\n", ""))


def test_validate_puts_one_problem_a_line_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("version: 1\nmodels:\n  - name: a\n    sorce: path:/m\n")

    code = run_validate(path, as_json=False)

    output = capsys.readouterr()
    assert (code, output.out) == (1, "")
    assert output.err.splitlines() == [
        f"{path}:3: models.0.source: is missing",
        f"{path}:4: models.0.sorce: unknown key 'sorce'; did you mean 'source'?",
    ]


@pytest.mark.parametrize(("text", "valid"), [("version: 1\n", True), ("version: 2\n", False)])
def test_validate_as_json_is_one_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, valid: bool
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)

    code = run_validate(path, as_json=True)

    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["valid"]) == (0 if valid else 1, valid)
    assert [problem["line"] for problem in answer["problems"]] == ([] if valid else [1])


def test_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_schema()

    assert code == 0
    assert json.loads(capsys.readouterr().out) == manifest_schema()
