import json
from pathlib import Path

import pytest

from appliance.cli.main import main
from appliance.cli.plan import plan_lines
from appliance.cli.wire import ActionBody, PlanBody
from tests.cli.command import Terminal
from tests.cli.fake_server import body, fake_appliance, refusal

_GIB = 2**30
_ACTIONS: list[dict[str, object]] = [
    {"verb": "unload", "model": "old", "reason": "not in the manifest any more"}
    | {"before_bytes": 2 * _GIB, "peak_bytes": 2 * _GIB, "after_bytes": 0},
    {"verb": "keep", "model": "chat", "reason": "unchanged"},
    {"verb": "load", "model": "big", "reason": "is to be in memory"}
    | {"before_bytes": 0, "peak_bytes": 3 * _GIB, "after_bytes": 3 * _GIB},
]
_REFUSED: dict[str, object] = {
    "verb": "refuse",
    "model": "huge",
    "reason": "needs 9.0 GiB; 5.0 GiB of 8.0 GiB can be had",
    **dict.fromkeys(("before_bytes", "peak_bytes", "after_bytes"), 3 * _GIB),
    "missing_bytes": 4 * _GIB,
}
_GOLDEN = """\
budget 8.0 GiB · held 2.0 GiB · at most 3.0 GiB, then 3.0 GiB
VERB    MODEL  BEFORE   PEAK     AFTER    REASON
unload  old    2.0 GiB  2.0 GiB  0 B      not in the manifest any more
keep    chat                              unchanged
load    big    0 B      3.0 GiB  3.0 GiB  is to be in memory
refuse  huge                              needs 9.0 GiB; 5.0 GiB of 8.0 GiB can be had; 4.0 GiB missing
"""  # noqa: E501


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "new.yaml"
    file.write_bytes("version: 1 # naïve\r\n".encode())
    return file


def _plan(*actions: dict[str, object], **fields: object) -> tuple[int, bytes]:
    return body(actions=actions, budget_bytes=8 * _GIB, revision="r2", **fields)


def test_plan_sends_the_file_as_it_is_and_shows_the_answer(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_appliance(_plan(*_ACTIONS, _REFUSED)) as fake:
        code = main(["plan", str(manifest), "--url", fake.url])

    assert capsys.readouterr().out == _GOLDEN
    assert code == 3
    assert (fake.asked[0].method, fake.asked[0].path) == ("POST", "/admin/v1/plan")
    assert fake.asked[0].headers["content-type"] == "application/yaml"
    assert fake.asked[0].content == manifest.read_bytes()


def test_plan_that_fits_is_ok(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(_plan(*_ACTIONS)) as fake:
        code = main(["plan", str(manifest), "--url", fake.url, "--json"])

    plan = json.loads(capsys.readouterr().out)
    assert code == 0
    assert [action["verb"] for action in plan["actions"]] == ["unload", "keep", "load"]
    assert plan["budget_bytes"] == 8 * _GIB
    assert plan["is_quiet"] is False


def test_plan_without_anything_to_do_says_so() -> None:
    plan = PlanBody([ActionBody("keep", "chat", "unchanged")], is_quiet=True)

    assert plan_lines(plan)[-1] == "Nothing to load, unload or update."


@pytest.mark.slow
def test_plan_is_coloured_on_a_terminal(manifest: Path) -> None:
    with (
        fake_appliance(_plan(*_ACTIONS, _REFUSED)) as fake,
        Terminal("plan", manifest, "--url", fake.url, env={"TERM": "xterm"}) as terminal,
    ):
        text = terminal.wait_for("missing")

        assert terminal.wait_end() == 3
    assert "\x1b[32mload\x1b[0m    big" in text
    assert "\x1b[31mrefuse\x1b[0m  huge" in text
    assert "\x1b[2mkeep\x1b[0m    chat" in text


def test_plan_of_a_wrong_manifest_is_told_by_line(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = [
        {"file": "/srv/vllm-mlx.yaml", "line": 3, "path": "models.0", "reason": "is\nwrong"},
        {"file": "/srv/vllm-mlx.yaml", "line": 0, "path": "", "reason": "is odd"},
    ]

    with fake_appliance(refusal(422, "The manifest is wrong.", problems)) as fake:
        code = main(["plan", str(manifest), "--url", fake.url])

    output = capsys.readouterr()
    assert code == 1
    assert output.out == ""
    assert output.err == f"{manifest}:3: models.0: is wrong\n{manifest}: is odd\n"


def test_plan_with_nobody_there_points_at_offline(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["plan", str(manifest), "--url", "http://127.0.0.1:1"])

    assert code == 4
    assert "--offline" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "told"),
    [
        pytest.param(401, "VLLM_MLX_API_KEY", id="no key"),
        pytest.param(403, "No luck.", id="no admin"),
        pytest.param(404, "No luck.", id="no admin API"),
        pytest.param(503, "No luck.", id="draining"),
    ],
)
def test_plan_that_is_refused_is_told_in_one_line(
    status: int, told: str, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_appliance(refusal(status, "No luck.")) as fake:
        code = main(["plan", str(manifest), "--url", fake.url])

    output = capsys.readouterr()
    assert code == 1
    assert told in output.err
    assert output.err.count("\n") == 1


def test_plan_of_a_missing_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["plan", str(tmp_path / "none.yaml"), "--url", "http://127.0.0.1:1"])

    assert code == 1
    assert "none.yaml: cannot be read: No such file" in capsys.readouterr().err
