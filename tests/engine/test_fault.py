"""A request that makes the model fail fails alone."""

from pathlib import Path

import pytest

from appliance.engine.loader import load_body
from appliance.engine.wire import EngineKind, EngineSettings, Submit
from tests.engine.faulty_model import (
    BROKEN,
    CROWDED,
    FATAL,
    FIRST_MARKER,
    NAN,
    ONCE,
    write_faulty_model,
)
from tests.engine.stage import Script, Stage
from tests.engine.worker_client import cancel, tokens

pytestmark = pytest.mark.mlx

_COUNT = 8
_PROMPTS = [
    [(7 * index + place * 11) % 200 + 4 for place in range(5 + index)] for index in range(8)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_faulty_model(tmp_path_factory.mktemp("faulty"))


def _open(folder: Path, kind: EngineKind = "batched") -> Stage:
    engine = EngineSettings(
        kind=kind, max_sequences=8, prefill_chunk_tokens=32, trust_remote_code=True
    )
    return Stage(load_body, folder, engine)


def _mate(index: int, when: str) -> Submit:
    return tokens(f"{when}-{index}", _PROMPTS[index], _COUNT)


def _culprit(index: int, marker: int, place: str) -> Submit:
    prompt = [*_PROMPTS[index], marker] if place == "last" else [marker, *_PROMPTS[index]]
    return tokens(f"culprit-{index}", prompt, _COUNT)


def _crowd(stage: Stage, culprits: list[Submit], mates: list[int]) -> Script:
    """Ask the mates alone; then all together; then one more."""
    for index in mates:
        yield from stage.ended(_mate(index, "solo"))
    together = [*culprits, *(_mate(index, "crowd") for index in mates)]
    yield from stage.ended(*together)
    yield from stage.ended(_mate(0, "next"))


def _assert_only_failed(stage: Stage, culprits: list[Submit], mates: list[int]) -> None:
    for submit in culprits:
        end = stage.answers[submit.id].end
        assert end.error is not None
        assert end.error.kind == "step_failed"
        assert "secret" not in end.error.message
    for index in mates:
        crowd, solo = stage.answers[f"crowd-{index}"], stage.answers[f"solo-{index}"]
        assert (crowd.ids, crowd.end.reason) == (solo.ids, "length")
    assert len(stage.answers["next-0"].ids) == _COUNT
    assert max(max(answer.ids, default=0) for answer in stage.answers.values()) < FIRST_MARKER
    last = stage.steps()[-1]
    assert (last.batch_size, last.waiting) == (0, 0)
    assert stage.failure() is None


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("marker", [NAN, BROKEN])
@pytest.mark.parametrize("culprits", [(2,), (0, 1, 2), (1, 4, 6)], ids=["one", "first", "some"])
def test_culprits_fail_and_their_mates_do_not(
    folder: Path, marker: int, place: str, culprits: tuple[int, ...]
) -> None:
    stage = _open(folder)
    bad = [_culprit(index, marker, place) for index in culprits]
    mates = [0, 3, 5, 7]

    stage.play(_crowd(stage, bad, mates))

    _assert_only_failed(stage, bad, mates)


@pytest.mark.parametrize("marker", [NAN, BROKEN])
def test_culprit_fails_alone_on_the_simple_kind(folder: Path, marker: int) -> None:
    stage = _open(folder, "simple")
    bad = [_culprit(2, marker, "last")]

    stage.play(_crowd(stage, bad, [0, 3]))

    _assert_only_failed(stage, bad, [0, 3])


def test_many_culprits_before_the_first_token_do_not_end_the_engine(folder: Path) -> None:
    stage = _open(folder)
    bad = [tokens(f"culprit-{index}", [index + 4, BROKEN], _COUNT) for index in range(5)]

    stage.play(_crowd(stage, bad, [5, 7]))

    _assert_only_failed(stage, bad, [5, 7])


@pytest.mark.parametrize("place", ["first", "last"])
def test_culprit_that_comes_late_fails_and_running_answers_go_on(folder: Path, place: str) -> None:
    stage = _open(folder)
    bad = _culprit(2, BROKEN, place)

    def script() -> Script:
        yield from stage.ended(_mate(0, "solo"))
        yield from stage.ended(_mate(3, "solo"))
        yield [_mate(0, "crowd"), _mate(3, "crowd")]
        yield from stage.until(lambda: len(stage.answers["crowd-3"].ids) > 3)
        yield from stage.ended(bad, _mate(0, "next"))
        yield from stage.until(lambda: stage.have_ended(["crowd-0", "crowd-3"]))

    stage.play(script())

    _assert_only_failed(stage, [bad], [0, 3])


@pytest.mark.parametrize("size", [3, 8])
def test_engine_gives_up_when_every_request_fails(folder: Path, size: int) -> None:
    stage = _open(folder)
    bad = [_culprit(index, FATAL, "last") for index in range(size)]

    stage.play(stage.ended(*bad))

    failed = stage.failure()
    assert failed is not None
    assert failed.error.kind == "step_failed"
    errors = [stage.answers[submit.id].end.error for submit in bad]
    assert [error.kind if error else None for error in errors] == ["step_failed"] * size


def test_engine_goes_on_when_only_requests_are_at_fault(folder: Path) -> None:
    stage = _open(folder)
    bad = [_culprit(index, BROKEN, "last") for index in range(8)]

    def script() -> Script:
        yield from stage.ended(*bad)
        yield from _crowd(stage, [], [0, 3])

    stage.play(script())

    assert stage.failure() is None
    _assert_only_failed(stage, bad, [0, 3])


@pytest.mark.parametrize("place", ["first", "last"])
def test_allocation_that_fails_once_is_tried_again(folder: Path, place: str) -> None:
    stage = _open(folder)
    short = _culprit(2, ONCE, place)

    stage.play(_crowd(stage, [short], [0, 3, 5]))

    assert len(stage.answers[short.id].ids) == _COUNT
    assert any(step.preempted for step in stage.steps())
    _assert_only_failed(stage, [], [0, 3, 5])


def test_allocation_that_fails_among_suspects_is_tried_again(folder: Path) -> None:
    stage = _open(folder)
    bad = tokens("culprit", [BROKEN, 5], _COUNT)
    short = _culprit(2, ONCE, "last")

    stage.play(_crowd(stage, [bad, short], [0, 3, 5]))

    assert len(stage.answers[short.id].ids) == _COUNT
    assert any(step.preempted for step in stage.steps())
    _assert_only_failed(stage, [bad], [0, 3, 5])


def test_too_large_a_batch_is_split_until_memory_suffices(folder: Path) -> None:
    stage = _open(folder)
    large = _culprit(2, CROWDED, "last")

    stage.play(_crowd(stage, [large], [0, 3, 5, 7]))

    assert len(stage.answers[large.id].ids) == _COUNT
    _assert_only_failed(stage, [], [0, 3, 5, 7])


def test_request_cancelled_while_suspected_is_gone(folder: Path) -> None:
    stage = _open(folder)
    bad = _culprit(2, BROKEN, "last")
    mates = [_mate(index, "crowd") for index in (0, 3, 5)]

    def script() -> Script:
        yield [bad, *mates]
        yield from stage.until(lambda: any(step.waiting for step in stage.steps()[3:]))
        yield [cancel("crowd-5")]
        yield from stage.until(lambda: stage.have_ended(each.id for each in [bad, *mates]))

    stage.play(script())

    assert stage.answers["crowd-5"].end.reason == "cancelled"
    assert [stage.answers[f"crowd-{index}"].end.reason for index in (0, 3)] == ["length"] * 2
    assert (stage.steps()[-1].batch_size, stage.steps()[-1].waiting) == (0, 0)
