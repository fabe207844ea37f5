import json

import pytest

from appliance.cli.main import main
from tests.cli.command import Terminal
from tests.cli.fake_server import body, event, fake_appliance

_LOADED = {"timestamp": "T1", "level": "info", "event": "model_loaded", "model": "chat", "n": 2}
_FAILED = {"timestamp": "T2", "level": "error", "event": "load_failed", "reason": "no such\nfile"}


def test_logs_are_written_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(body(lines=[_LOADED, _FAILED, {}])) as fake:
        code = main(["logs", "-n", "7", "--url", fake.url])

    assert code == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "T1 info    model_loaded model=chat n=2",
        'T2 error   load_failed reason="no such\\nfile"',
    ]
    assert fake.asked[0].path == "/admin/v1/logs?lines=7"


def test_logs_are_written_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(body(lines=[_LOADED, _FAILED])) as fake:
        main(["logs", "--json", "--url", fake.url])

    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [_LOADED, _FAILED]


def test_logs_are_followed_until_the_appliance_ends_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = [event(**_LOADED), b": heartbeat\n\n", event(**_FAILED)]

    with fake_appliance((200, stream)) as fake:
        code = main(["logs", "-f", "--url", fake.url])

    output = capsys.readouterr()
    assert code == 4
    assert len(output.out.splitlines()) == 2
    assert "ended its log" in output.err
    assert fake.asked[0].path == "/admin/v1/logs?lines=100&follow=true"


@pytest.mark.slow
def test_logs_are_coloured_on_a_terminal() -> None:
    with (
        fake_appliance(body(lines=[_FAILED])) as fake,
        Terminal("logs", "--url", fake.url, env={"TERM": "xterm"}) as terminal,
    ):
        text = terminal.wait_for("load_failed")

        assert terminal.wait_end() == 0
    assert "\x1b[31merror  \x1b[0m" in text


def test_stream_of_something_else_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance((200, b"data: 1\n\n")) as fake:
        code = main(["logs", "-f", "--url", fake.url])

    assert code == 1
    assert "something unknown" in capsys.readouterr().err


def test_number_of_lines_below_nothing_is_wrong_usage() -> None:
    assert main(["logs", "-n", "-1", "--url", "http://127.0.0.1:1"]) == 2
