import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from appliance.cli.main import main
from tests.appliance_server import DEADLINE_SECONDS, clean_environment
from tests.cli.command import COMMAND, Terminal
from tests.cli.fake_server import (
    Content,
    body,
    event,
    fake_appliance,
    model,
    refusal,
    status,
)

_IN_FORCE = body(etag="e1", revision="r1", number=1, file="/srv/vllm-mlx.yaml", text="version: 1\n")
_PLAN = body(actions=[{"verb": "load", "model": "chat", "reason": "new"}], budget_bytes=2**30)
_PUT = body(number=2, revision="r2", plan=None)
_CONVERGED = event(**status(model("chat")))
_LOADING = event(
    **status(
        model("chat", "loading", progress={"phase": "load", "done": 512, "total": 1024}),
        model("other"),
        state="converging",
    )
)
_LAST_REVISION = event(**status(model("chat", "absent"), number=1))


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "new.yaml"
    file.write_bytes(b"version: 1\nmodels: []  # kept\n")
    return file


def _apply(manifest: Path, *answers: tuple[int, Content], args: tuple[str, ...] = ()) -> int:
    with fake_appliance(*answers) as fake:
        return main(["apply", str(manifest), "--yes", "--url", fake.url, *args])


def test_apply_sends_the_file_for_the_version_it_saw(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = _LAST_REVISION + _LOADING + _CONVERGED

    with fake_appliance(_IN_FORCE, _PLAN, _PUT, (200, stream)) as fake:
        code = main(["apply", str(manifest), "--yes", "--url", fake.url])

    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        "budget 1.0 GiB · held 0 B",
        "VERB  MODEL  REASON",
        "load  chat   new",
        "Revision 2 is in force.",
        "chat: loading load 50% (512 B of 1.0 KiB)",
        "chat: ready",
        "converged: revision 2",
    ]
    assert [(each.method, each.path) for each in fake.asked] == [
        ("GET", "/admin/v1/manifest"),
        ("POST", "/admin/v1/plan"),
        ("PUT", "/admin/v1/manifest"),
        ("GET", "/admin/v1/status?watch=true"),
    ]
    assert fake.asked[2].headers["if-match"] == '"e1"'
    assert fake.asked[2].content == manifest.read_bytes()


def test_apply_without_waiting_asks_no_status(manifest: Path) -> None:
    assert _apply(manifest, _IN_FORCE, _PLAN, _PUT, args=("--no-wait",)) == 0


def test_apply_in_a_pipe_needs_yes(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance() as fake:
        code = main(["apply", str(manifest), "--url", fake.url])

    assert code == 2
    assert "--yes" in capsys.readouterr().err
    assert fake.asked == []


def test_apply_says_what_failed_and_is_not_converged(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = model("chat", "failed", reason="no such file", last_error="no such file")
    still = event(**status(failed, model("other", "loading"), state="degraded"))
    over = event(**status(failed, model("other"), state="degraded"))

    code = _apply(manifest, _IN_FORCE, _PLAN, _PUT, (200, still + over))

    output = capsys.readouterr()
    assert code == 3
    assert "other: ready" in output.out
    assert output.err.splitlines() == [
        "vllm-mlx: chat: no such file",
        "vllm-mlx: revision 2 is in force and has not converged",
    ]


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        pytest.param(_LOADING, "hung up before revision 2", id="stream ends early"),
        pytest.param(b"", "hung up before revision 2", id="no event"),
        pytest.param(event(**status(number=3)), "revision 3 took the place of 2", id="superseded"),
    ],
)
def test_apply_that_sees_no_end_is_not_converged(
    stream: bytes, told: str, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _apply(manifest, _IN_FORCE, _PLAN, _PUT, (200, stream))

    assert code == 3
    assert told in capsys.readouterr().err


def test_apply_to_a_stream_of_something_else_fails(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _apply(manifest, _IN_FORCE, _PLAN, _PUT, (200, b"data: []\n\n"))

    assert code == 1
    assert "something unknown" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(refusal(412, "Changed."), "somebody else changed the manifest", id="412"),
        pytest.param(refusal(409, "It is read-only."), "It is read-only.", id="409"),
        pytest.param(refusal(403, "Admins only."), "Admins only.", id="403"),
        pytest.param(
            refusal(422, "Wrong.", [{"file": "f", "line": 2, "path": "models", "reason": "odd"}]),
            "new.yaml:2: models: odd",
            id="422",
        ),
    ],
)
def test_apply_that_is_refused_fails(
    answer: tuple[int, bytes], told: str, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _apply(manifest, _IN_FORCE, _PLAN, answer)

    error = capsys.readouterr().err
    assert code == 1
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["n", "", "what?", "\x04"])
def test_apply_does_nothing_unless_told_yes(manifest: Path, answer: str) -> None:
    with (
        fake_appliance(_IN_FORCE, _PLAN) as fake,
        Terminal("apply", manifest, "--url", fake.url) as terminal,
    ):
        terminal.wait_for(r"Write /srv/vllm-mlx.yaml and do this\? \[y/N\] ")
        terminal.type(answer if answer == "\x04" else f"{answer}\n")
        terminal.wait_for("Nothing was changed")

        assert terminal.wait_end() == 1
        assert len(fake.asked) == 2


@pytest.mark.slow
def test_apply_draws_a_line_for_each_model_on_a_terminal(manifest: Path) -> None:
    with (
        fake_appliance(_IN_FORCE, _PLAN, _PUT, (200, _LOADING + _CONVERGED)) as fake,
        Terminal("apply", manifest, "--url", fake.url, env={"TERM": "xterm"}) as terminal,
    ):
        terminal.wait_for("y/N")
        terminal.type("y\n")
        text = terminal.wait_for("converged")

        assert terminal.wait_end() == 0
    assert "\x1b[33mloading\x1b[0m  [##########..........] load 50% (512 B of 1.0 KiB)" in text
    assert "\x1b[1A" in text
    assert "\x1b[32mready\x1b[0m" in text
    assert "other" not in text


@pytest.mark.slow
def test_interrupt_while_waiting_says_that_the_appliance_goes_on(manifest: Path) -> None:
    is_over = Event()

    def endless() -> Iterator[bytes]:
        yield _LOADING
        is_over.wait(DEADLINE_SECONDS)

    with fake_appliance(_IN_FORCE, _PLAN, _PUT, (200, endless())) as fake:
        command = [*COMMAND, "apply", str(manifest), "--yes", "--url", fake.url]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()
        ) as process:
            assert process.stdout is not None
            while b"loading" not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=DEADLINE_SECONDS)
        is_over.set()

    assert process.returncode == 130
    assert b"goes on without this command" in complaint
    assert complaint.count(b"\n") == 1
