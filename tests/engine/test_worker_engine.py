"""The gateway's client and a worker understand each other, in a process and without one."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pytest

from appliance.channel import encode_frame
from appliance.engine.body import Outcome, Report
from appliance.engine.client import WorkerEngine
from appliance.engine.inprocess import InProcessWorker
from appliance.engine.interface import EngineEvents, EngineStream
from appliance.engine.script import Script
from appliance.engine.scripted import ScriptedBody
from appliance.engine.wire import (
    PROTOCOL_VERSION,
    Accepted,
    End,
    EngineSettings,
    Failed,
    FromWorker,
    Hello,
    Load,
    Ready,
    Row,
    ScriptPrompt,
    Step,
    Submit,
    WireError,
)
from appliance.errors import EngineStopped, InvalidRequest, StepFailed, WorkerDied

pytestmark = pytest.mark.slow

_SCRIPT = """
- {match: fail, pieces: [a, b], fail_at: 1}
- {match: endless, pieces: [x], piece_delay: 5ms, repeat: 1000000}
"""


def _request(name: str, text: str, max_tokens: int = 100_000) -> Submit:
    return Submit("m", name, ScriptPrompt(text, len(text.split())), max_tokens)


async def _read(stream: EngineStream) -> str:
    text = ""
    while True:
        for row in await stream.take():
            text += row.text
            if row.end is not None:
                return text if row.end.error is None else f"{text}!{row.end.error.kind}"


async def _use(engine: WorkerEngine) -> list[str]:
    endless = engine.submit(_request("endless", "endless"))
    refused = engine.submit(_request("refused", "x", max_tokens=0))
    texts = [
        await _read(engine.submit(_request("echo", "one two"))),
        await _read(engine.submit(_request("fail", "fail"))),
    ]
    with pytest.raises(InvalidRequest):
        await refused.accepted()
    assert (await endless.accepted()).prompt_tokens == 1
    await engine.close()
    with pytest.raises(EngineStopped):
        await _read(endless)
    return texts


@pytest.mark.parametrize("in_process", [True, False])
def test_worker_engine_serves_a_script(script: Path, in_process: bool) -> None:
    script.write_text(_SCRIPT)
    lost: list[object] = []
    batches: list[int] = []

    async def run() -> list[str]:
        events = EngineEvents(
            on_step=lambda step: batches.append(step.batch_size),
            on_progress=lambda _: None,
            on_lost=lost.append,
        )
        engine = WorkerEngine("m", events)
        load = Load("m", str(script), EngineSettings(kind="scripted"))
        await engine.start(load, InProcessWorker().connection if in_process else None)
        return await _use(engine)

    texts = asyncio.run(run())

    assert texts == ["one two", "a!step_failed"]
    assert lost == []
    assert batches[-1] == 0


@dataclass
class Reports:
    """What an engine told its owner beside rows."""

    steps: list[Step] = field(default_factory=list)
    lost: list[Exception] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def events(self) -> EngineEvents:
        return EngineEvents(self.steps.append, lambda _: None, self._note_lost)

    def _note_lost(self, error: Exception) -> None:
        self.lost.append(error)
        self.ended.set()


async def _endless(script: Path, reports: Reports, step_timeout: float) -> WorkerEngine:
    """Return the engine of a worker process that has just loaded `script`."""
    script.write_text(_SCRIPT)
    engine = WorkerEngine("m", reports.events(), step_timeout=step_timeout)
    await engine.start(Load("m", str(script), EngineSettings(kind="scripted", max_sequences=1)))
    return engine


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["KILL", "STOP"])
def test_dead_or_stopped_worker_loses_all_it_held_once(script: Path, number: int) -> None:
    async def run(reports: Reports) -> None:
        engine = await _endless(script, reports, step_timeout=1.0)
        running = engine.submit(_request("running", "endless"))
        waiting = engine.submit(_request("waiting", "endless"))
        await waiting.accepted()
        assert await running.take()
        assert engine.pid is not None
        os.kill(engine.pid, number)

        for stream in (running, waiting):
            with pytest.raises(WorkerDied, match="silent" if number == signal.SIGSTOP else "ended"):
                await _read(stream)
        late = engine.submit(_request("late", "x"))
        await engine.close()

        assert not psutil.pid_exists(engine.pid)
        with pytest.raises(WorkerDied):
            await late.accepted()

    reports = Reports()
    asyncio.run(asyncio.wait_for(run(reports), 20))

    assert [type(error) for error in reports.lost] == [WorkerDied]


class StuckBody(ScriptedBody):
    """A script whose steps take until somebody lets them go."""

    def __init__(self, release: threading.Event) -> None:
        super().__init__(Script(()), 1)
        self._release = release

    def step(self) -> Outcome:
        self._release.wait()
        return super().step()


def test_stuck_step_ends_an_engine_inside_this_process() -> None:
    release = threading.Event()

    def open_body(load: Load, report: Report) -> StuckBody:
        return StuckBody(release)

    async def run(reports: Reports, worker: InProcessWorker) -> None:
        engine = WorkerEngine("m", reports.events(), step_timeout=1.0)
        await engine.start(Load("m", "", EngineSettings(kind="scripted")), worker.connection)
        stream = engine.submit(_request("one", "one"))
        await stream.accepted()

        with pytest.raises(WorkerDied, match="stuck in a step"):
            await _read(stream)
        await engine.close()

    reports, worker = Reports(), InProcessWorker(open_body)
    try:
        asyncio.run(asyncio.wait_for(run(reports, worker), 20))
    finally:
        release.set()
        worker.join()

    assert [type(error) for error in reports.lost] == [WorkerDied]


@pytest.mark.slow
def test_idle_worker_is_never_stuck(script: Path) -> None:
    async def run(reports: Reports) -> str:
        engine = await _endless(script, reports, step_timeout=1.5)
        assert engine.pid is not None
        with pytest.raises(TimeoutError):  # silence would have ended it by then
            await asyncio.wait_for(reports.ended.wait(), 5.0)
        text = await _read(engine.submit(_request("one", "one")))
        await engine.close()
        return text

    reports = Reports()

    assert asyncio.run(asyncio.wait_for(run(reports), 20)) == "one"
    assert reports.lost == []


Act = Callable[[WorkerEngine, socket.socket], Awaitable[None]]


def say(theirs: socket.socket, *frames: FromWorker) -> None:
    """Send frames in a worker's place."""
    theirs.sendall(b"".join(map(encode_frame, frames)))


def step(*rows: Row, started: str = "", preempted: str = "") -> Step:
    """Return a step of requests whose names are single letters."""
    return Step("m", 1, {}, len(started), 0, 0, list(rows), list(started), list(preempted))


def play_worker(reports: Reports, act: Act) -> None:
    """Run `act` with an engine that has loaded, and its worker's end of the socket."""

    async def main() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            engine = WorkerEngine("m", reports.events())
            say(theirs, Hello(PROTOCOL_VERSION, 1), Ready("m", 0, 100))
            await engine.start(Load("m", "", EngineSettings()), ours)
            await act(engine, theirs)
        await engine.close()

    asyncio.run(asyncio.wait_for(main(), 20))


def test_engine_that_fails_whole_takes_along_what_it_had_not_failed_itself() -> None:
    async def act(engine: WorkerEngine, theirs: socket.socket) -> None:
        names = ("alone", "lost", "unread")
        alone, lost, unread = (engine.submit(_request(name, "x")) for name in names)
        own = End("error", 0, WireError("step_failed", "The step failed."))
        whole = WireError("step_failed", "The steps fail.", retryable=True)
        shared = End("error", 1, whole)
        say(theirs, *(Accepted("m", name, 1) for name in names))
        say(theirs, step(Row("alone", "", 0, end=own), Row("lost", "x", 1, end=shared)))
        say(theirs, Failed("m", whole))
        theirs.close()

        with pytest.raises(WorkerDied):
            await _read(unread)
        with pytest.raises(WorkerDied):
            await _read(lost)
        assert await _read(alone) == "!step_failed"
        with pytest.raises(StepFailed):
            await alone.take()

    reports = Reports()
    play_worker(reports, act)

    assert [type(error) for error in reports.lost] == [StepFailed]


def test_stream_is_told_when_it_gets_and_loses_its_place() -> None:
    told: list[tuple[str, bool]] = []

    async def act(engine: WorkerEngine, theirs: socket.socket) -> None:
        streams = {name: EngineStream(partial(_tell, name)) for name in "abc"}
        for name, stream in streams.items():
            assert engine.submit(_request(name, "x"), stream) is stream
        engine.cancel("b")
        say(theirs, Accepted("m", "a", 1), step(started="ab?"), step(started="a"))
        say(theirs, step(preempted="a"), step(started="ac", preempted="ac"))
        say(theirs, step(started="caa", preempted="a"), step(Row("a", "x", 1)))

        rows: list[Row] = []
        while not rows:
            rows = await streams["a"].take()

    def _tell(name: str, is_running: bool) -> None:
        told.append((name, is_running))

    play_worker(Reports(), act)

    assert told == [("a", True), ("a", False), ("c", True), ("a", True)]
