"""Flags win over variables, variables over defaults; bad ones are named and not repeated."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.errors import ManifestError
from appliance.manifest.setting import default_state_dir, find_manifest, load_settings

pytestmark = pytest.mark.slow

SCRIPT = """
import json, sys
from appliance.errors import ManifestError
from appliance.manifest.setting import load_settings
try:
    settings = load_settings(json.loads(sys.argv[1]))
    print(settings.model_dump_json())
    print(repr(settings), file=sys.stderr)
except ManifestError as error:
    sys.exit("\\n".join(map(str, error.problems)))
"""


def test_settings_have_defaults() -> None:
    settings = json.loads(read_settings({}).stdout)

    assert (settings["host"], settings["port"]) == ("127.0.0.1", 8000)
    assert (settings["log_format"], settings["log_level"]) == ("auto", "info")
    assert settings["config"] is settings["state_dir"] is settings["url"] is None


def test_settings_come_from_variables_unless_a_flag_says_otherwise() -> None:
    environ = {"PORT": "9000", "HOST": "192.0.2.1", "STATE_DIR": "~/state", "LOG_LEVEL": ""}

    settings = json.loads(read_settings(environ, port=9001, host=None).stdout)

    assert (settings["host"], settings["port"]) == ("192.0.2.1", 9001)
    assert settings["state_dir"] == str(Path.home() / "state")
    assert settings["log_level"] == "info"


def test_settings_name_every_bad_variable_in_one_line() -> None:
    environ = {"PORT": "hunter2", "LOG_FORMAT": "xml", "URL": "mac:8000"}

    result = read_settings(environ)

    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "environment: VLLM_MLX_PORT: should be a whole number",
        "environment: VLLM_MLX_LOG_FORMAT: should be 'auto', 'json' or 'console'",
        "environment: VLLM_MLX_URL: should begin with http:// or https://",
    ]


def test_settings_never_show_the_api_key() -> None:
    result = read_settings({"API_KEY": "hunter2"})

    assert result.returncode == 0
    assert "hunter2" not in result.stdout + result.stderr


def test_bad_flag_is_named_as_a_flag() -> None:
    with pytest.raises(ManifestError) as caught:
        load_settings({"port": 70000, "log_level": "loud"})

    assert [str(problem) for problem in caught.value.problems] == [
        "command line: --port: should be at most 65535",
        "command line: --log-level: should be 'debug', 'info', 'warning' or 'error'",
    ]


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("darwin", {"XDG_STATE_HOME": "/x"}, "/h/Library/Application Support/vllm-mlx"),
        ("linux", {}, "/h/.local/state/vllm-mlx"),
        ("linux", {"XDG_STATE_HOME": "/x"}, "/x/vllm-mlx"),
        ("linux", {"XDG_STATE_HOME": "relative"}, "/h/.local/state/vllm-mlx"),
    ],
)
def test_state_folder_follows_the_platform(
    platform: str, environ: dict[str, str], folder: str
) -> None:
    assert default_state_dir(platform, environ, Path("/h")) == Path(folder)


def test_manifest_in_force_is_the_first_there_is(tmp_path: Path) -> None:
    cwd, state_dir = tmp_path / "cwd", tmp_path / "state"
    found = [find_manifest(None, cwd=cwd, state_dir=state_dir)]
    for folder in (state_dir, cwd):
        folder.mkdir()
        (folder / "vllm-mlx.yaml").touch()
        found.append(find_manifest(None, cwd=cwd, state_dir=state_dir))
    found.append(find_manifest(Path("mine.yaml"), cwd=cwd, state_dir=state_dir))

    named = [state_dir / "vllm-mlx.yaml", cwd / "vllm-mlx.yaml", Path("mine.yaml")]
    assert found == [None, *named]


def read_settings(environ: dict[str, str], **flags: object) -> subprocess.CompletedProcess[str]:
    # pydantic-settings reads the real environment, so a child gets one of its own.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_MLX_")}
    ours = {f"VLLM_MLX_{name}": value for name, value in environ.items()}
    command = [sys.executable, "-c", SCRIPT, json.dumps(flags)]
    return subprocess.run(command, env=clean | ours, capture_output=True, text=True, check=False)
