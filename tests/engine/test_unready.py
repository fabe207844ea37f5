"""A request whose grammar is being compiled can be ended like any other, and holds nobody up."""

from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.engine.script import Script as Answers
from appliance.engine.scripted import ScriptedBody
from appliance.engine.wire import Drain, EngineSettings, Limits, MemoryLimits, Submit
from tests.engine.stage import Script, Stage
from tests.engine.worker_client import MODEL, cancel, words

pytestmark = pytest.mark.mlx

# A stage has turns only for frames where a worker waits for ever: this one changes nothing.
_WAKE = Limits(MODEL, MemoryLimits())


class _SlowBody(ScriptedBody):
    """Prepares what begins with `slow` only when it is told to."""

    waits_for_room = False  # which a stage has no means to say
    wake: Callable[[], None] | None = None
    is_ready = False

    def prepare(self, submit: Submit, wake: Callable[[], None]) -> bool:
        self.wake = wake
        return self.is_ready or not submit.id.startswith("slow")


@pytest.fixture
def body() -> _SlowBody:
    return _SlowBody(Answers(()), 8)


@pytest.fixture
def stage(body: _SlowBody) -> Stage:
    return Stage(lambda load, report: body, Path(), EngineSettings())


def test_others_are_answered_meanwhile_and_the_slow_one_after_the_wake(
    stage: Stage, body: _SlowBody
) -> None:
    def script() -> Script:
        yield [words("slow", "a b")]
        yield from stage.ended(words("quick", "c"))
        assert "slow" not in stage.answers
        body.is_ready = True
        yield [_WAKE]
        yield from stage.until(lambda: stage.have_ended(["slow"]))

    stage.play(script())

    assert body.wake is not None
    assert stage.answers["slow"].text == "a b"


def test_cancel_refuses_what_is_not_ready(stage: Stage, body: _SlowBody) -> None:
    def script() -> Script:
        yield [words("slow", "a"), cancel("slow")]
        body.is_ready = True
        yield [words("next", "b")]
        yield from stage.until(lambda: stage.have_ended(["next"]))

    stage.play(script())

    answer = stage.answers["slow"]
    assert answer.refused is not None
    assert answer.refused.error.kind == "stopped"
    assert (answer.accepted, answer.text) == (None, "")


@pytest.mark.parametrize("is_draining", [True, False])
def test_what_is_not_ready_at_the_end_is_refused(
    stage: Stage, body: _SlowBody, is_draining: bool
) -> None:
    def script() -> Script:
        yield [words("slow", "a")]
        if is_draining:
            yield [Drain(MODEL)]
            body.is_ready = True
            yield [_WAKE]
            yield from stage.until(lambda: stage.have_ended(["slow"]))

    stage.play(script())

    refused = stage.answers["slow"].refused
    assert refused is not None
    assert refused.error.kind == "stopped"


def test_second_request_of_the_same_id_is_refused_and_the_first_stays(
    stage: Stage, body: _SlowBody
) -> None:
    def script() -> Script:
        yield [words("slow", "first"), words("slow", "second")]
        yield from stage.until(lambda: stage.have_ended(["slow"]))
        assert stage.answers["slow"].refused is not None
        body.is_ready = True
        yield [_WAKE]
        yield from stage.until(lambda: bool(stage.answers["slow"].ends))

    stage.play(script())

    assert stage.answers["slow"].text == "first"
