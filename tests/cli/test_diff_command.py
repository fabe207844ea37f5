import json
from pathlib import Path

import pytest

from appliance.cli.diff import is_drifting
from appliance.cli.main import main
from appliance.cli.wire import ModelStatusBody
from tests.cli.command import Terminal, run_command
from tests.cli.fake_server import body, fake_appliance, model, status

_IN_FORCE = body(etag="e2", number=2, file="/srv/vllm-mlx.yaml", text="version: 1\nmodels: []\n")
_STEADY = body(**status(model("chat"), model("spare", "absent", wish="may")))
_DRIFTING = body(
    **status(
        model("chat", observed_key="k0", reason="waits"),
        model("pinned", override="must"),
        model("calm"),
    )
)
_GOLDEN = """\
--- revision 2, in force
+++ {file}
@@ -1,2 +1,2 @@
 version: 1
-models: []
+models: [] # none
MODEL   WISH  OVERRIDE  PHASE  DESIRED  OBSERVED
chat    must            ready  k1       k0
pinned  must  must      ready  k1       k1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vllm-mlx.yaml"
    path.write_text("version: 1\nmodels: [] # none\n", encoding="utf-8")
    return path


def test_diff_shows_edits_and_drift(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(_IN_FORCE, _DRIFTING) as fake:
        code = main(["diff", str(file), "--url", fake.url])

    assert capsys.readouterr().out == _GOLDEN.format(file=file)
    assert code == 3


def test_diff_answers_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(_IN_FORCE, _DRIFTING) as fake:
        main(["diff", str(file), "--json", "--url", fake.url])

    answer = json.loads(capsys.readouterr().out)
    assert answer["diff"].endswith("-models: []\n+models: [] # none")
    assert [each["name"] for each in answer["drift"]] == ["chat", "pinned"]


def test_diff_of_the_same_is_quiet(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("version: 1\nmodels: []\n", encoding="utf-8")

    with fake_appliance(_IN_FORCE, _STEADY) as fake:
        code = main(["diff", str(file), "--url", fake.url])

    assert (code, capsys.readouterr().out) == (0, "")


@pytest.mark.slow
def test_diff_is_coloured_on_a_terminal(file: Path) -> None:
    with (
        fake_appliance(_IN_FORCE, _STEADY) as fake,
        Terminal("diff", file, "--url", fake.url, env={"TERM": "xterm"}) as terminal,
    ):
        text = terminal.wait_for("# none")

        assert terminal.wait_end() == 3
    assert "\x1b[31m-models: []\x1b[0m" in text
    assert "\x1b[32m+models: [] # none\x1b[0m" in text


@pytest.mark.slow
def test_diff_without_a_file_takes_the_one_of_its_folder(file: Path) -> None:
    with fake_appliance(_IN_FORCE, _STEADY, _IN_FORCE, _STEADY) as fake:
        here = run_command("diff", "--url", fake.url, cwd=file.parent)
        nowhere = run_command("diff", "--url", fake.url, cwd=file.parent.parent)

    assert (here.returncode, nowhere.returncode) == (3, 0)
    assert "+++ vllm-mlx.yaml" in here.stdout
    assert nowhere.stdout == ""


@pytest.mark.parametrize(
    ("wish", "observed", "expected"),
    [
        pytest.param("must", "k1", False, id="as wanted"),
        pytest.param("must", None, True, id="missing"),
        pytest.param("must", "k0", True, id="old copy"),
        pytest.param("may", None, False, id="not asked for yet"),
        pytest.param("may", "k0", True, id="old copy of a may model"),
        pytest.param("must_not", "k1", True, id="should be gone"),
        pytest.param("must_not", None, False, id="gone"),
    ],
)
def test_drift_is_memory_that_is_not_as_wanted(
    wish: str, observed: str | None, *, expected: bool
) -> None:
    each = ModelStatusBody("m", "ready", wish, desired_key="k1", observed_key=observed)

    assert is_drifting(each) is expected
