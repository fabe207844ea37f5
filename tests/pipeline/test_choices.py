"""Several answers to one request begin, end and are recorded together."""

import asyncio
import gc
from typing import Any

import pytest

from appliance.chat.event import Finished, GenerationEvent, TextDelta, Usage
from appliance.chat.request import ChatRequest, Message, Sampling
from appliance.engine.wire import End, Row
from appliance.errors import RequestCancelled, StepFailed, WorkerDied
from appliance.pipeline.choices import Choices
from appliance.pipeline.sender import RequestIds, Sender
from tests.pipeline.fake_engine import Stage, play

HI = ChatRequest("chat", (Message("user", "hi"),), sampling=Sampling(seed=7))


def row(text: str, *, is_last: bool = False) -> Row:
    return Row("r", text, 1, end=End("stop", 1) if is_last else None)


async def begin(stage: Stage, *requests: ChatRequest, n: int = 1) -> Choices:
    choices = Choices(stage.pipeline, requests, RequestIds("r", None, Sender("key")), n)
    choices.start()
    assert await choices.opened()
    return choices


async def read(choices: Choices) -> dict[int, list[GenerationEvent]]:
    events: dict[int, list[GenerationEvent]] = {}
    while not choices.is_over:
        index, came = await choices.next_events()
        events.setdefault(index, []).extend(came)
    return events


def test_choices_have_ids_and_seeds_of_their_own() -> None:
    async def test(stage: Stage) -> None:
        choices = await begin(stage, HI, HI, n=2)

        submits = stage.engine.submits
        assert sorted(submit.id for submit in submits) == ["r", "r.1", "r.2", "r.3"]
        assert sorted(submit.sampling.seed or 0 for submit in submits) == [7, 7, 8, 8]
        choices.close()
        assert stage.gauges() == (0, 0)

    play(test)


def test_choices_are_read_as_they_come_and_recorded_once() -> None:
    async def test(stage: Stage) -> None:
        choices = await begin(stage, HI, n=2)
        streams = {submit.id: stream for submit, stream in stage.engine.handed()}
        streams["r.1"].put(row("b", is_last=True))
        streams["r"].put(row("a", is_last=True))

        events = await read(choices)
        choices.close()
        choices.close()

        ended = Finished("stop", Usage(1, 1))
        assert events == {0: [TextDelta("a"), ended], 1: [TextDelta("b"), ended]}
        assert choices.usage == Usage(1, 2)
        assert stage.value("requests_total", api="chat", result="ok") == 1
        assert stage.pipeline.key_usage["key"].completion_tokens == 2
        assert stage.pipeline.running() == ()

    play(test)


def test_whole_answer_has_each_choice() -> None:
    async def test(stage: Stage) -> None:
        choices = await begin(stage, HI, n=2)
        for submit, stream in stage.engine.handed():
            stream.put(row(submit.id, is_last=True))

        events = await choices.whole()

        assert [each[0] for each in events] == [TextDelta("r"), TextDelta("r.1")]

    play(test)


def test_reader_is_woken_also_when_the_first_choice_is_over() -> None:
    async def test(stage: Stage) -> None:
        choices = await begin(stage, HI, n=2)
        streams = {submit.id: stream for submit, stream in stage.engine.handed()}
        streams["r"].put(row("a", is_last=True))
        assert (await choices.next_events())[0] == 0
        reading = asyncio.create_task(choices.next_events())
        await asyncio.sleep(0)

        choices.wake()

        assert await reading == (1, [])
        choices.close()

    play(test)


def test_cancel_ends_every_choice_also_when_the_first_is_over() -> None:
    async def test(stage: Stage) -> None:
        choices = await begin(stage, HI, n=2)
        streams = {submit.id: stream for submit, stream in stage.engine.handed()}
        streams["r"].put(row("a", is_last=True))
        await choices.next_events()

        stage.pipeline.cancel("r", key_name="key", is_admin=False)

        with pytest.raises(RequestCancelled):
            await choices.next_events()
        choices.close()
        assert "r.1" in stage.engine.cancelled
        assert stage.value("requests_total", api="chat", result="cancelled") == 1

    play(test)


def test_lost_worker_costs_no_choice_whose_text_nobody_saw() -> None:
    async def test(stage: Stage) -> None:
        choices = await begin(stage, HI, n=2)
        for stream in stage.engine.streams[:]:
            stream.put(row(""))
            stream.fail(WorkerDied("chat"))
        reading = asyncio.create_task(read(choices))
        await stage.engine.has(4)
        for submit, stream in stage.engine.handed()[2:]:
            stream.put(row(submit.id, is_last=True))

        events = await reading

        assert {index: each[0] for index, each in events.items()} == {
            0: TextDelta("r"),
            1: TextDelta("r.1"),
        }
        assert choices.usage == Usage(1, 2)
        choices.close()

    play(test)


def test_error_of_one_choice_ends_all_and_is_told_once() -> None:
    async def test(stage: Stage) -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        choices = await begin(stage, HI, n=3)
        for stream in stage.engine.streams:
            stream.fail(StepFailed("no"))

        with pytest.raises(StepFailed):
            await choices.next_events()
        choices.close()

        del choices, stream
        stage.engine.streams.clear()
        gc.collect()
        assert told == []
        assert stage.pipeline.running() == ()

    play(test)
