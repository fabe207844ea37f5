import json

import pytest

from appliance.cli.main import main
from tests.cli.fake_server import body, event, fake_appliance, model, refusal, status

_OLD = {"number": 1, "revision": "r1", "at": "then", "who": "", "how": "start", "diff": "+a"}
_NOW = {"number": 2, "revision": "r2", "at": 0.0, "who": "ops", "how": "apply", "diff": "-a\n+b"}
_HISTORY = body(revisions=[{**_NOW, "is_in_force": True}, {**_OLD, "is_in_force": False}])
_REVISION = body(**_OLD, is_in_force=False, text="version: 1\n")
_IN_FORCE = body(etag="e2", text="version: 1\nmodels: []\n", number=2)
_PLAN = body(actions=[], is_quiet=True)
_CHANGE = body(number=3, revision="r1", plan=None)


def test_history_lists_revisions(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(_HISTORY) as fake:
        code = main(["history", "--url", fake.url])

    header, newest, oldest = capsys.readouterr().out.splitlines()
    assert code == 0
    assert header.split() == ["NUMBER", "WHEN", "WHO", "HOW", "REVISION"]
    assert newest.split()[0] == "2"
    assert newest.endswith("ops  apply  r2        in force")
    assert oldest.split() == ["1", "then", "start", "r1"]


def test_history_shows_what_a_revision_changed(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(_REVISION) as fake:
        code = main(["history", "1", "--url", fake.url])

    assert code == 0
    assert capsys.readouterr().out.splitlines() == ["revision 1 (r1), then: start", "+a"]
    assert fake.asked[0].path == "/admin/v1/history/1"


@pytest.mark.parametrize(
    ("args", "answer", "key"), [([], _HISTORY, "revisions"), (["1"], _REVISION, "text")]
)
def test_history_answers_as_json(
    args: list[str],
    answer: tuple[int, bytes],
    key: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with fake_appliance(answer) as fake:
        main(["history", *args, "--json", "--url", fake.url])

    assert json.loads(capsys.readouterr().out)[key]


def test_history_of_an_unknown_revision_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(refusal(404, "No revision 9.")) as fake:
        code = main(["history", "9", "--url", fake.url])

    assert code == 1
    assert capsys.readouterr().err == "vllm-mlx: No revision 9.\n"


def test_rollback_goes_to_the_revision_before(capsys: pytest.CaptureFixture[str]) -> None:
    stream = event(**status(model("chat"), number=3))
    answers = (_IN_FORCE, _HISTORY, _REVISION, _PLAN, _CHANGE, (200, stream))

    with fake_appliance(*answers) as fake:
        code = main(["rollback", "--yes", "--url", fake.url])

    assert code == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "Revision 3 is in force, as 1 was.",
        "converged: revision 3",
    ]
    plan, change = fake.asked[3:5]
    assert (plan.path, plan.content) == ("/admin/v1/plan", b"version: 1\n")
    assert (change.path, change.content) == ("/admin/v1/rollback", b'{"number":1}')
    assert change.headers["if-match"] == '"e2"'


def test_rollback_to_a_number_asks_no_list() -> None:
    with fake_appliance(_IN_FORCE, _REVISION, _PLAN, _CHANGE) as fake:
        code = main(["rollback", "1", "--yes", "--no-wait", "--url", fake.url])

    assert code == 0
    assert fake.asked[1].path == "/admin/v1/history/1"


def test_rollback_without_anything_before_fails(capsys: pytest.CaptureFixture[str]) -> None:
    only = body(revisions=[{**_OLD, "is_in_force": True}])

    with fake_appliance(_IN_FORCE, only) as fake:
        code = main(["rollback", "--yes", "--url", fake.url])

    assert code == 1
    assert "no revision before" in capsys.readouterr().err


def test_rollback_in_a_pipe_needs_yes() -> None:
    with fake_appliance() as fake:
        code = main(["rollback", "--url", fake.url])

    assert code == 2
    assert fake.asked == []


def test_rollback_to_what_is_wrong_now_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    problem = {"file": "f", "line": 4, "path": "auth_keys.0", "reason": "OPS_KEY is not set"}

    with fake_appliance(_IN_FORCE, _REVISION, refusal(422, "Wrong.", [problem])) as fake:
        code = main(["rollback", "1", "--yes", "--url", fake.url])

    assert code == 1
    assert capsys.readouterr().err == "revision 1:4: auth_keys.0: OPS_KEY is not set\n"


def test_rollback_after_somebody_elses_edit_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(_IN_FORCE, _REVISION, _PLAN, refusal(412, "Changed.")) as fake:
        code = main(["rollback", "1", "--yes", "--url", fake.url])

    assert code == 1
    assert "somebody else changed the manifest" in capsys.readouterr().err
