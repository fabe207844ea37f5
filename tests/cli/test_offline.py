import json
from pathlib import Path

import pytest

from appliance.cli.main import main

pytestmark = pytest.mark.slow

_MANIFEST = """\
version: 1
memory: {budget: 4GiB, reserve: 0}
models:
  - name: chat
    source: scripted:script.yaml
    engine: {memory: 1GiB}
    residency: {preload: true}
  - {name: chat-fast, like: chat}
  - {name: spare, source: "scripted:script.yaml"}
  - name: huge
    source: scripted:script.yaml
    engine: {memory: 64TiB}
    residency: {preload: true}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    (tmp_path / "script.yaml").write_text("[]\n", encoding="utf-8")
    file = tmp_path / "vllm-mlx.yaml"
    file.write_text(_MANIFEST, encoding="utf-8")
    return file


def test_plan_offline_is_that_of_a_first_start(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state_dir = str(manifest.parent / "state")

    code = main(["plan", str(manifest), "--offline", "--json", "--state-dir", state_dir])

    plan = json.loads(capsys.readouterr().out)
    verbs = {action["model"]: action["verb"] for action in plan["actions"]}
    assert code == 3
    assert verbs == {"chat": "load", "spare": "update", "huge": "refuse"}
    assert 0 < plan["budget_bytes"] <= 4 * 2**30


def test_plan_offline_tells_what_is_wrong(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.write_text("version: 1\nmodells: []\n", encoding="utf-8")

    code = main(["plan", str(manifest), "--offline", "--state-dir", str(manifest.parent)])

    assert code == 1
    assert capsys.readouterr().err.startswith(f"{manifest}:2: modells: ")
