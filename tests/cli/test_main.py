import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.cli.main import COMMANDS, build_parser, main
from appliance.manifest.schema import manifest_schema_text
from tests.appliance_server import clean_environment
from tests.cli.command import COMMAND, run_command

pytestmark = pytest.mark.slow

_ARGUMENTS = {
    "validate": ["FILE"],
    "plan": ["FILE"],
    "apply": ["FILE"],
    "load": ["NAME"],
    "unload": ["NAME"],
    "pin": ["NAME"],
    "unpin": ["NAME"],
    "models pull": ["NAME"],
    "models inspect": ["NAME"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_function_takes_what_the_parser_gives(command: str) -> None:
    module, name = COMMANDS[command].split(":")
    function = getattr(importlib.import_module(module), name)

    options = vars(build_parser().parse_args([*command.split(), *_ARGUMENTS.get(command, [])]))

    assert options.pop("command") == command
    inspect.signature(function).bind(**options)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(f"  {command.split()[0]} " in text for command in COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    heavy = ["pydantic", "litestar", "granian", "yaml", "msgspec", "asyncio", "huggingface_hub"]
    code = (
        "import sys; from appliance.cli.main import build_parser; build_parser().format_help();"
        f"sys.exit(','.join(set({heavy!r}) & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert done.stderr.strip() == b""


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param([], "COMMAND", id="no command"),
        pytest.param(["stat"], "'stat'", id="unknown command"),
        pytest.param(["status", "--jso"], "--jso", id="flags are not guessed"),
        pytest.param(["serve", "--port", "http"], "--port", id="port is no number"),
        pytest.param(["serve", "--port", "70000"], "--port", id="port is too large"),
        pytest.param(["models"], "COMMAND", id="half a command"),
    ],
)
def test_wrong_usage_is_told_in_one_line(
    args: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(args)

    output = capsys.readouterr()
    assert code == 2
    assert output.out == ""
    assert told in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("command", ["serve", "status", "doctor"])
def test_bad_variable_is_told_in_one_line(command: str) -> None:
    done = run_command(command, env={"VLLM_MLX_PORT": "abc"})

    assert done.returncode == 2
    assert "VLLM_MLX_PORT" in done.stderr
    assert "abc" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_file_that_cannot_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    done = run_command("models", "pull", "hf:a/b", "--state-dir", tmp_path / "file" / "state")

    assert done.returncode == 1
    assert "Not a directory" in done.stderr
    assert done.stderr.count("\n") == 1


def test_schema_is_the_generated_one(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["schema"])

    assert code == 0
    assert capsys.readouterr().out == manifest_schema_text()


def test_validate_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "bad.yaml"
    manifest.write_text("version: 1\nmodells: []\n", encoding="utf-8")

    code = main(["validate", str(manifest)])

    assert code == 1
    assert f"{manifest}:2: modells" in capsys.readouterr().err


def test_validate_answers_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "good.yaml"
    manifest.write_text("version: 1\n", encoding="utf-8")

    code = main(["validate", str(manifest), "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["valid"] is True


def test_reader_that_leaves_early_costs_no_traceback() -> None:
    source, sink = os.pipe()
    os.close(source)

    done = subprocess.run(
        [*COMMAND, "schema"],
        stdout=sink,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        check=False,
    )
    os.close(sink)

    assert done.stderr == b""
    assert done.returncode == 1
