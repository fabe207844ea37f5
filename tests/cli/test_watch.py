import json

import pytest

from appliance.cli.main import main
from appliance.cli.watch import situation
from appliance.cli.wire import ModelStatusBody, ProgressBody
from tests.cli.command import Terminal
from tests.cli.fake_server import body, event, fake_appliance, model, refusal, status

_HEALTH = body(status="ready", version="1", uptime_seconds=3.0, models=[])
_LOADING = event(**status(model("chat", "loading"), state="converging"))
_READY = event(**status(model("chat")))


def test_status_tells_what_admins_may_see(capsys: pytest.CaptureFixture[str]) -> None:
    models = [
        model("chat", requests=1, memory_bytes=2**30, context_tokens=4096),
        model("spare", "absent", wish="may", override="must_not", reason="stays out"),
    ]
    reload = {"is_ok": False, "at": 1.0, "problems": ["m.yaml:3: models: is wrong"]}

    with fake_appliance(_HEALTH, body(**status(*models, reload=reload, state="degraded"))) as fake:
        code = main(["status", "--url", fake.url])

    assert code == 3
    assert capsys.readouterr().out.splitlines() == [
        "ready · version 1 · up 3s · degraded · revision 2 · 1.0 GiB of 8.0 GiB held",
        "rejected: m.yaml:3: models: is wrong",
        "NAME   PHASE   WISH                 REQUESTS  CONTEXT  MEMORY   REASON",
        "chat   ready   must                 1         4096     1.0 GiB",
        "spare  absent  must_not (override)  0                           stays out",
    ]


@pytest.mark.parametrize("code", [401, 403, 404])
def test_status_tells_others_what_health_says(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_appliance(_HEALTH, refusal(code, "No.")) as fake:
        assert main(["status", "--url", fake.url]) == 0

    assert capsys.readouterr().out == "ready · version 1 · up 3s\n"


def test_status_as_json_has_both(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(_HEALTH, body(**status(model("chat")))) as fake:
        code = main(["status", "--json", "--url", fake.url])

    answer = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (answer["status"], answer["state"], answer["number"]) == ("ready", "converged", 2)
    assert [each["name"] for each in answer["models"]] == ["chat"]


def test_watched_status_in_a_pipe_tells_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance((200, _LOADING + _LOADING + _READY)) as fake:
        code = main(["status", "--watch", "--url", fake.url])

    output = capsys.readouterr()
    assert code == 4
    assert output.out.splitlines() == [
        "converging · revision 2 · 1.0 GiB of 8.0 GiB held",
        "NAME  PHASE    WISH  REQUESTS",
        "chat  loading  must  0",
        "converged · revision 2 · 1.0 GiB of 8.0 GiB held",
        "chat: ready",
    ]
    assert "ended its status" in output.err


def test_watched_status_as_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance((200, _LOADING + _READY)) as fake:
        main(["status", "--watch", "--json", "--url", fake.url])

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["state"] for line in lines] == ["converging", "converged"]


@pytest.mark.slow
def test_watched_status_is_drawn_over_on_a_terminal() -> None:
    with (
        fake_appliance((200, _LOADING + _READY)) as fake,
        Terminal("status", "--watch", "--url", fake.url, env={"TERM": "xterm"}) as terminal,
    ):
        text = terminal.wait_for("ended its status")

        assert terminal.wait_end() == 4
    assert "\x1b[3A" in text
    assert text.count("NAME") == 2


@pytest.mark.parametrize(
    ("each", "told"),
    [
        (ModelStatusBody("m", "ready", reason="loaded"), ""),
        (ModelStatusBody("m", "ready", last_error="too big"), "too big"),
        (ModelStatusBody("m", "failed", reason="died", retry_in_seconds=4.0), "in 4s"),
        (ModelStatusBody("m", "loading", progress=ProgressBody("read")), "read"),
        (ModelStatusBody("m", "loading", progress=ProgressBody("read", 1, 4)), "read 25% (1 B"),
    ],
)
def test_situation_says_what_matters(each: ModelStatusBody, told: str) -> None:
    assert told in situation(each)
    assert bool(told) is bool(situation(each))
