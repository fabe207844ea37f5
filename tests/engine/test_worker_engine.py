"""The gateway's client and a worker understand each other, in a process and without one."""

import asyncio
from pathlib import Path

import pytest

from appliance.engine.client import WorkerEngine
from appliance.engine.inprocess import InProcessWorker
from appliance.engine.interface import EngineEvents, EngineStream
from appliance.engine.wire import EngineSettings, Load, ScriptPrompt, Submit
from appliance.errors import EngineStopped, InvalidRequest

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
