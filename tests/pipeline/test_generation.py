"""A request ends as it should, whatever its engine and others do to it in the meantime."""

import asyncio

import pytest

from appliance.api.openai.chat.codec import chat_completion
from appliance.api.openai.choice import AnswerHead
from appliance.chat.event import (
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from appliance.chat.request import Tool
from appliance.engine.wire import End, Row, ScriptPrompt, TokenLogprob
from appliance.errors import (
    ApplianceError,
    DeadlineExceeded,
    InvalidRequest,
    RequestCancelled,
    StepFailed,
    WorkerDied,
)
from appliance.manifest.spec import ChatSpec, LimitsSpec
from appliance.pipeline.generation import Generation
from tests.pipeline.fake_engine import Stage, play


def row(text: str, *, is_last: bool = False, mark: float = 0.0) -> Row:
    """Return a row of one token; `mark` is its log-probability, if not 0."""
    logprobs = [TokenLogprob(1, mark, text.encode())] if mark else []
    end = End("stop", 1) if is_last else None
    return Row("r", text, 1, [1], end, logprobs, [len(text)])


async def read_all(generation: Generation) -> list[GenerationEvent]:
    events: list[GenerationEvent] = []
    while not events or type(events[-1]) is not Finished:
        events += await generation.next_events()
    return events


def marks(events: list[GenerationEvent]) -> list[float]:
    deltas = [event for event in events if isinstance(event, TextDelta)]
    return [token.logprob for delta in deltas for token in delta.logprobs or ()]


@pytest.mark.parametrize(("asked", "sent"), [(3, 3), (50, 20)])
def test_min_tokens_are_at_most_the_answers_tokens(asked: int, sent: int) -> None:
    async def test(stage: Stage) -> None:
        await stage.open(min_tokens=asked)

        assert stage.engine.submits[0].max_tokens == 20
        assert stage.engine.submits[0].min_tokens == sent

    play(test, LimitsSpec(max_output_tokens=20))


def test_abort_wins_over_rows_not_read_yet() -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open()
        stage.engine.streams[0].put(row("late", is_last=True))

        generation.cancel()

        with pytest.raises(RequestCancelled) as failure:
            await generation.next_events()
        assert generation.error is failure.value
        assert generation.finish_reason is None
        assert stage.engine.cancelled == ["r0"]

    play(test)


@pytest.mark.parametrize(
    "error", [StepFailed("no"), WorkerDied("chat")], ids=lambda e: type(e).__name__
)
def test_error_recorded_is_the_one_raised(error: ApplianceError) -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open()
        stage.engine.streams[0].fail(error)

        generation.cancel()

        with pytest.raises(RequestCancelled) as failure:
            await generation.next_events()
        assert generation.error is failure.value
        assert not generation.is_renewed

    play(test)


def test_request_lost_before_its_first_text_is_submitted_once_more() -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open()
        stage.engine.die()
        assert await generation.next_events() == []
        await stage.engine.has(2)
        stage.engine.streams[1].put(row("hello", is_last=True))

        events = await read_all(generation)

        first, second = stage.engine.submits
        assert (first.id, first.prompt) == (second.id, second.prompt)
        assert events == [TextDelta("hello"), Finished("stop", Usage(1, 1, 0))]

    play(test)


def test_request_lost_twice_or_after_its_first_text_fails() -> None:
    async def test(stage: Stage) -> None:
        read, unread = await stage.open(), await stage.open()
        stage.engine.streams[0].put(row("begun"))
        assert await read.next_events() == [TextDelta("begun")]
        stage.engine.streams[0].fail(WorkerDied("chat"))
        stage.engine.streams[1].fail(WorkerDied("chat"))
        assert await unread.next_events() == []
        await stage.engine.has(3)
        stage.engine.die()

        for generation in (read, unread):
            with pytest.raises(WorkerDied) as failure:
                await generation.next_events()
            assert generation.error is failure.value
        assert len(stage.engine.submits) == 3

    play(test)


def test_deadline_counts_on_and_the_caller_reads_its_own() -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open(timeout_seconds=0.2)
        stage.engine.die()

        with pytest.raises(DeadlineExceeded) as failure:
            await read_all(generation)

        first, second = (each.timeout_seconds for each in stage.engine.submits)
        assert first is not None and second is not None
        assert 0.2 < second < first
        assert failure.value.seconds == 0.2

    play(test)


@pytest.mark.parametrize(("own", "result"), [(0.05, "rejected"), (None, "error"), (9, "error")])
def test_deadline_is_an_error_unless_the_caller_chose_it(own: float | None, result: str) -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open(timeout_seconds=own)
        with pytest.raises(DeadlineExceeded):
            await read_all(generation)

        stage.pipeline.close(generation)

        assert stage.value("requests_total", api="chat", result=result) == 1

    play(test, LimitsSpec(request_timeout=0.1))


def test_whole_answer_has_only_the_log_probabilities_of_its_second_worker() -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open(logprobs=0)
        whole = asyncio.create_task(stage.pipeline.whole(generation))
        stage.engine.streams[0].put(row("lost", mark=-9.0))
        while generation.times.first_text is None:
            await asyncio.sleep(0)
        stage.engine.die()
        await stage.engine.has(2)
        stage.engine.streams[1].put(row("a", mark=-1.0))
        stage.engine.streams[1].put(row("b", mark=-2.0, is_last=True))

        events = await whole

        head = AnswerHead("r", "chat")
        answer = chat_completion(head, [events], Usage(), has_logprobs=True)
        choice = answer["choices"][0]
        assert choice["message"]["content"] == "ab"
        assert [each["logprob"] for each in choice["logprobs"]["content"]] == [-1.0, -2.0]

    play(test)


def test_log_probabilities_held_back_die_with_their_worker() -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open(logprobs=0)
        stage.engine.streams[0].put(row("", mark=-9.0))
        assert await generation.next_events() == []
        stage.engine.die()
        assert await generation.next_events() == []
        await stage.engine.has(2)
        stage.engine.streams[1].put(row("a", mark=-1.0, is_last=True))

        assert marks(await read_all(generation)) == [-1.0]

    play(test)


def test_request_that_lost_its_place_waits_again() -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open()
        seen = [stage.gauges()]
        for balance in (1, 0, -1, 0, 1, 1):
            stage.engine.streams[0].note_places(balance)
            seen.append(stage.gauges())
        began = generation.times.started

        stage.engine.streams[0].note_places(-1)
        stage.engine.streams[0].note_places(1)

        assert seen == [(0, 1), (1, 0), (1, 0), (0, 1), (0, 1), (1, 0), (1, 0)]
        assert generation.times.started == began
        stage.pipeline.close(generation)
        assert stage.gauges() == (0, 0)

    play(test)


def test_answer_is_read_as_the_manifest_says() -> None:
    async def test(stage: Stage) -> None:
        tools = (Tool("f"),)
        generation = await stage.open(tools=tools)
        call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
        for text in ("<think>", "plan", "</think>", "So: "):
            stage.engine.streams[0].put(row(text))
        stage.engine.streams[0].put(row(call, is_last=True))

        events = await read_all(generation)

        opened = events.pop(2)
        assert isinstance(opened, ToolCallDelta)
        assert opened.name == "f"
        assert events == [
            ReasoningDelta("plan"),
            TextDelta("So:"),
            ToolCallDelta(0, arguments="{}"),
            Finished("tool_calls", Usage(1, 1, 0, 1)),
        ]

    play(test, chat=ChatSpec(reasoning_parser="qwen3", tool_parser="hermes"))


def test_answer_to_a_prompt_without_messages_is_all_text() -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open(messages=(), prompt="go on")
        stage.engine.streams[0].put(row("<think>a</think>", is_last=True))

        events = await read_all(generation)

        assert stage.engine.submits[0].prompt == ScriptPrompt("go on", 2)
        assert events == [TextDelta("<think>a</think>"), Finished("stop", Usage(1, 1))]

    play(test, chat=ChatSpec(reasoning_parser="qwen3"))


def test_stop_string_is_reported_and_cancels_the_rest() -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open(stop=("END",))
        stage.engine.streams[0].put(row("all EN"))
        stage.engine.streams[0].put(row("D of it"))

        events = await read_all(generation)

        assert events == [TextDelta("all "), Finished("stop", Usage(1, 2), "END")]
        assert stage.engine.cancelled == ["r0"]

    play(test)


def test_thoughts_of_a_lost_worker_are_not_counted() -> None:
    async def test(stage: Stage) -> None:
        generation = await stage.open()
        generation.is_whole = True
        stage.engine.streams[0].put(row("<think>lost"))
        await generation.next_events()
        stage.engine.die()
        assert await generation.next_events() == []
        await stage.engine.has(2)
        stage.engine.streams[1].put(row("found", is_last=True))

        assert await read_all(generation) == [TextDelta("found"), Finished("stop", Usage(1, 1))]

    play(test, chat=ChatSpec(reasoning_parser="qwen3"))


@pytest.mark.parametrize("clamps", [False, True])
def test_more_tokens_than_the_server_allows_are_refused_or_cut(clamps: bool) -> None:
    async def test(stage: Stage) -> None:
        if clamps:
            await stage.open(max_tokens=50, clamps_max_tokens=True)
            assert stage.engine.submits[0].max_tokens == 20
        else:
            with pytest.raises(InvalidRequest):
                await stage.open(max_tokens=50)

    play(test, LimitsSpec(max_output_tokens=20))
