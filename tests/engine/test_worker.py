"""A worker's life: its first words, its pulse, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from appliance.channel import encode_frame, spawn_child
from appliance.engine.body import Body, Outcome, Report
from appliance.engine.inprocess import InProcessWorker
from appliance.engine.script import Script
from appliance.engine.scripted import ScriptedBody
from appliance.engine.wire import (
    PROTOCOL_VERSION,
    Close,
    Drain,
    EngineSettings,
    Failed,
    Hello,
    Load,
    Pulse,
    Refused,
    Step,
    Submit,
)
from appliance.scheduler.sequence import Sequence
from tests.engine.worker_client import MODEL, WorkerClient, words

pytestmark = pytest.mark.slow

_ENGINE = EngineSettings(kind="scripted", max_sequences=4)
_ENDLESS = "- {match: '', pieces: ['x '], piece_delay: 5ms, repeat: 1000000}"


def _load(client: WorkerClient, script: Path, text: str = _ENDLESS) -> None:
    script.write_text(text)
    client.load(script, _ENGINE)


def test_worker_says_hello_first_and_pulses_once_loading(
    worker: WorkerClient, script: Path
) -> None:
    _load(worker, script)

    pulse = worker.until(lambda frame: isinstance(frame, Pulse))

    assert worker.process is not None
    assert worker.frames[0] == Hello(PROTOCOL_VERSION, worker.process.pid)
    assert pulse == Pulse(MODEL, 0, 0.0)


def test_worker_exits_when_the_parent_is_gone(worker: WorkerClient, script: Path) -> None:
    _load(worker, script)
    worker.send(words("id", "go"))
    worker.until(lambda frame: isinstance(frame, Step) and bool(frame.rows))

    worker.sock.close()

    assert worker.process is not None
    assert worker.process.wait(timeout=5) == 0


def test_worker_exits_when_the_parent_is_gone_before_a_load(worker: WorkerClient) -> None:
    worker.sock.close()

    assert worker.process is not None
    assert worker.process.wait(timeout=10) == 0


def test_worker_ignores_a_keyboard_interrupt(worker: WorkerClient, script: Path) -> None:
    _load(worker, script, "- {match: '', pieces: ['fine']}")
    assert worker.process is not None

    os.kill(worker.process.pid, signal.SIGINT)

    assert worker.ask(words("id", "go"))[0].text == "fine"


def test_worker_ends_requests_with_an_error_and_exits_on_close(
    worker: WorkerClient, script: Path
) -> None:
    _load(worker, script)
    submits = [words(f"id-{number}", "go") for number in range(6)]
    worker.send(*submits)
    worker.until(lambda frame: isinstance(frame, Step) and frame.waiting == 2)

    worker.send(Close(MODEL))
    worker.until_ended([submit.id for submit in submits])

    errors = [worker.answers[submit.id].end.error for submit in submits]
    assert [error.kind if error else None for error in errors] == ["stopped"] * 6
    assert worker.process is not None
    assert worker.process.wait(timeout=5) == 0


def test_worker_refuses_new_requests_while_draining(worker: WorkerClient, script: Path) -> None:
    _load(worker, script, "- {match: '', pieces: ['x', 'y'], first_delay: 300ms}")
    worker.send(words("old", "go"), Drain(MODEL), words("new", "go"))

    worker.until_ended(["old", "new"])

    refused = worker.answers["new"].refused
    assert refused is not None
    assert (refused.error.kind, refused.error.retryable) == ("stopped", True)
    assert worker.answers["old"].text == "xy"


def test_worker_refuses_a_second_request_of_the_same_id(worker: WorkerClient, script: Path) -> None:
    _load(worker, script)
    worker.send(words("id", "go"), words("id", "go"))

    frame = worker.until(lambda frame: isinstance(frame, Refused))

    assert isinstance(frame, Refused)
    assert frame.error.kind == "invalid_request"


def test_worker_exits_on_a_frame_it_cannot_read(worker: WorkerClient) -> None:
    worker.sock.sendall(encode_frame(Hello(1, 1)))

    assert worker.process is not None
    assert worker.process.wait(timeout=10) == 0


class _FailingBody(ScriptedBody):
    """A script whose first `failures` steps raise."""

    def __init__(self, failures: int) -> None:
        super().__init__(Script(()), max_sequences=2)
        self._failures = failures

    def step(self) -> Outcome:
        if self._failures:
            self._failures -= 1
            raise RuntimeError("broken")
        return super().step()

    def works(self) -> bool:
        return not self._failures


def _in_process(failures: int) -> WorkerClient:
    worker = InProcessWorker(lambda load, report: _FailingBody(failures))
    client = WorkerClient(worker.connection, None)
    client.load(Path("none"), _ENGINE)
    return client


def test_step_that_fails_once_fails_nobody_in_a_crowd() -> None:
    client = _in_process(failures=1)

    answers = client.ask(words("a", "x"), words("b", "x"), words("c", "x y"))

    assert [answer.text for answer in answers] == ["x", "x", "x y"]
    client.close()


def test_engine_whose_steps_all_fail_ends() -> None:
    client = _in_process(failures=1000)
    client.send(*(words(name, "x") for name in "abcde"))

    frame = client.until(lambda frame: isinstance(frame, Failed))

    assert isinstance(frame, Failed)
    assert frame.error.kind == "step_failed"
    assert [client.answers[name].end.reason for name in "abcde"] == ["error"] * 5
    with pytest.raises(EOFError):
        client.until(lambda _: False)
    client.close()


class _StuckBody(ScriptedBody):
    """A script whose steps never end until `release` is set."""

    def __init__(self) -> None:
        super().__init__(Script(()), max_sequences=1)
        self.release = threading.Event()

    def step(self) -> Outcome:
        self.release.wait()
        return super().step()


def test_pulse_goes_on_and_the_reader_leaves_while_a_step_is_stuck() -> None:
    body = _StuckBody()
    worker = InProcessWorker(lambda load, report: body)
    client = WorkerClient(worker.connection, None)
    client.load(Path("none"), _ENGINE)
    client.send(words("id", "x"))

    pulse = client.until(lambda frame: isinstance(frame, Pulse) and frame.seconds_in_step > 1)
    client.close()
    worker.reader.join(timeout=5)

    assert isinstance(pulse, Pulse)
    assert pulse.step == 1
    assert not worker.reader.is_alive()
    body.release.set()
    worker.join()


class _PickyBody(ScriptedBody):
    """A script that fails in a place that the text of a request names."""

    def __init__(self) -> None:
        super().__init__(Script(()), max_sequences=4)

    def check(self, submit: Submit) -> int:
        if submit.id == "uncountable":
            raise RuntimeError("secret")
        return super().check(submit)

    def insert(self, submit: Submit, sequence: Sequence) -> None:
        if submit.id == "unfit":
            raise RuntimeError("secret")
        super().insert(submit, sequence)


def test_request_that_the_body_chokes_on_fails_alone() -> None:
    client = WorkerClient(InProcessWorker(lambda load, report: _PickyBody()).connection, None)
    client.load(Path("none"), _ENGINE)

    first, unfit, uncountable, last = client.ask(
        *(words(name, "x y") for name in ("first", "unfit", "uncountable", "last"))
    )

    assert (first.text, last.text) == ("x y", "x y")
    assert unfit.end.error is not None
    assert uncountable.refused is not None
    for error in (unfit.end.error, uncountable.refused.error):
        assert error.kind == "step_failed"
        assert "RuntimeError" in error.message
        assert "secret" not in error.message
    client.close()


def test_load_that_fails_unforeseen_says_why() -> None:
    def open_body(load: Load, report: Report) -> Body:
        raise MemoryError("no room\nanywhere")

    client = WorkerClient(InProcessWorker(open_body).connection, None)
    client.send(Load(MODEL, "none", _ENGINE))

    frame = client.until(lambda frame: isinstance(frame, Failed))

    assert isinstance(frame, Failed)
    assert frame.error.kind == "load_failed"
    assert frame.error.message.endswith("MemoryError: no room anywhere")
    client.close()


_STUCK_PROCESS = """
import threading
from appliance.engine.worker import exit_after

def serve():
    threading.Thread(target=threading.Event().wait).start()
    raise KeyError("decoder")

exit_after(serve)
"""


def test_process_ends_when_its_reader_fails_whatever_else_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STUCK_PROCESS],
        capture_output=True,
        text=True,
        check=False,
        timeout=15,
    )

    assert done.returncode == 1
    assert "reader_failed" in done.stdout


def test_worker_logs_as_its_arguments_say(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[list[str]] = []
    for arguments in (("info", "json"), ("error", "json"), ("info",), ()):
        process, sock = spawn_child("appliance.engine.worker", *arguments)
        client = WorkerClient(sock, process)
        _load(client, script, "- {match: '', pieces: ['fine']}")
        client.ask(words("id", "go"))
        client.close()
        lines.append(capfd.readouterr().out.splitlines())

    assert [json.loads(line)["event"] for line in lines[0]] == ["model_loaded"]
    assert [len(each) for each in lines] == [1, 0, 1, 1]
