import json
from pathlib import Path

import pytest

from tests.appliance_server import RunningAppliance, running_appliance, wait_until
from tests.cli.command import run_command
from tests.cli.conftest import TESTER_KEY

pytestmark = pytest.mark.slow

_BROKEN = """\
version: 1
models:
  - {name: lost, source: "scripted:missing.yaml", residency: {preload: true}}
"""


def test_status_shows_models_when_ready(echo: RunningAppliance) -> None:
    done = run_command("status", "--state-dir", echo.state_dir)

    assert done.returncode == 0
    headline, header, row = done.stdout.splitlines()
    assert headline.startswith("ready · version ")
    assert header.split()[:2] == ["NAME", "PHASE"]
    assert row.split()[:2] == ["echo", "ready"]


def test_status_answers_as_json(echo: RunningAppliance) -> None:
    done = run_command("status", "--json", "--state-dir", echo.state_dir)

    health = json.loads(done.stdout)
    assert health["status"] == "ready"
    assert [model["name"] for model in health["models"]] == ["echo"]


def test_status_is_not_converged_when_a_model_failed() -> None:
    with running_appliance(_BROKEN, {}, is_ready=False) as appliance:
        last = None

        def has_failed() -> bool:
            nonlocal last
            last = run_command("status", "--json", "--state-dir", appliance.state_dir)
            return '"failed"' in last.stdout

        wait_until(has_failed)
        told = run_command("status", "--state-dir", appliance.state_dir)

    assert last is not None
    assert last.returncode == told.returncode == 3
    assert "not ready" in told.stdout
    assert "no such script file" in told.stdout


@pytest.mark.parametrize("command", [["status"], ["models", "list"], ["chat"]])
def test_nobody_there_is_told_in_one_line(command: list[str], tmp_path: Path) -> None:
    done = run_command(*command, "--state-dir", tmp_path)

    assert done.returncode == 4
    assert str(tmp_path) in done.stderr
    assert done.stderr.count("\n") == 1


def test_url_that_nobody_answers_is_told() -> None:
    done = run_command("status", env={"VLLM_MLX_URL": "http://127.0.0.1:1"})

    assert done.returncode == 4
    assert "http://127.0.0.1:1" in done.stderr


def test_state_dir_flag_wins_over_url_variable(echo: RunningAppliance) -> None:
    env = {"VLLM_MLX_URL": "http://127.0.0.1:1"}

    done = run_command("status", "--state-dir", echo.state_dir, env=env)

    assert done.returncode == 0


def test_status_without_key_says_only_whether_it_is_ready(echo: RunningAppliance) -> None:
    done = run_command("status", "--url", echo.url)

    assert done.returncode == 0
    assert done.stdout.splitlines() == ["ready", "Set VLLM_MLX_API_KEY to see the models."]


def test_models_list_with_key_over_a_base_url(echo: RunningAppliance) -> None:
    env = {"VLLM_MLX_URL": f"{echo.url}/v1/", "VLLM_MLX_API_KEY": TESTER_KEY}

    done = run_command("models", "list", "--json", env=env)

    models = json.loads(done.stdout)["models"]
    assert [(each["name"], each["model"]) for each in models] == [
        ("echo", "echo"),
        ("parrot", "echo"),
    ]


def test_models_list_with_wrong_key_is_refused(echo: RunningAppliance) -> None:
    done = run_command("models", "list", "--url", echo.url, env={"VLLM_MLX_API_KEY": "wrong-key"})

    assert done.returncode == 1
    assert "VLLM_MLX_API_KEY" in done.stderr
    assert "wrong-key" not in done.stderr
    assert done.stderr.count("\n") == 1
