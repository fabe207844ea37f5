"""Who runs when, what a step says of it, and prompts of every shape."""

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from appliance.engine.loader import load_body
from appliance.engine.wire import EngineKind, EngineSettings, Limits, MemoryLimits, Step, Submit
from tests.engine.stage import Script, Stage
from tests.engine.worker_client import MODEL, WorkerClient, tokens
from tests.tiny_models import write_tiny_model

pytestmark = pytest.mark.mlx

_CONTEXT = 256


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("order"), "llama")


@pytest.fixture
def slow(folder: Path) -> Iterator[WorkerClient]:
    """A worker in this process with one place, and room for answers that take a while."""
    write_tiny_model(folder, "llama", max_position_embeddings=2**20)
    client = WorkerClient.in_process()
    client.load(folder, EngineSettings(max_sequences=1))
    yield client
    client.close()
    write_tiny_model(folder, "llama")


def _plain(folder: Path, ids: list[int], count: int) -> list[int]:
    model, _ = load_model(folder)
    steps = generate_step(mx.array(ids), model, max_tokens=count)
    return [int(token) for token, _ in steps]


def _stage(folder: Path, max_sequences: int, prefill_chunk_tokens: int = 512) -> Stage:
    engine = EngineSettings(max_sequences=max_sequences, prefill_chunk_tokens=prefill_chunk_tokens)
    return Stage(load_body, folder, engine)


def test_deadline_ends_a_running_and_a_waiting_request(slow: WorkerClient) -> None:
    running = tokens("running", [5] * 9, 2**19, timeout_seconds=0.3)
    waiting = tokens("waiting", [6] * 9, 5, timeout_seconds=0.3)

    answers = slow.ask(running, waiting)
    (after,) = slow.ask(tokens("after", [6] * 9, 5, timeout_seconds=30.0))

    for answer in answers:
        assert answer.end.error is not None
        assert (answer.end.error.kind, answer.end.error.limit_seconds) == ("deadline", 0.3)
    assert answers[0].end.completion_tokens == len(answers[0].ids) > 0
    assert answers[1].ids == []
    assert len(after.ids) == 5
    assert (slow.steps()[-1].batch_size, slow.steps()[-1].waiting) == (0, 0)


def test_higher_priority_starts_first(folder: Path) -> None:
    stage = _stage(folder, max_sequences=1)
    ranks = (0, -5, 3, 0, 3)
    submits = [tokens(f"{n}", [n + 1], 2, priority=rank) for n, rank in enumerate(ranks)]

    stage.play(stage.ended(*submits))

    assert stage.started() == ["2", "4", "0", "3", "1"]


def test_keys_share_by_weight(folder: Path) -> None:
    stage = _stage(folder, max_sequences=1)
    submits = [
        tokens(f"{key}{n}", [n + 1] * 3, 3, key=key, weight=weight)
        for n in range(24)
        for key, weight in (("a", 1.0), ("b", 3.0))
    ]

    stage.play(stage.ended(*submits))

    early = [name[0] for name in stage.started()[:24]]
    assert early.count("b") == pytest.approx(18, abs=2)
    assert sorted(stage.started()) == sorted(submit.id for submit in submits)


def _check_steps(steps: list[Step], submits: list[Submit]) -> None:
    open_ids = {submit.id for submit in submits}
    running: set[str] = set()
    for step in steps:
        running |= set(step.started)
        ended = {row.id for row in step.rows if row.end}
        assert {row.id for row in step.rows} <= running
        running -= ended
        open_ids -= ended
        assert (step.batch_size, step.waiting) == (len(running), len(open_ids) - len(running))
        assert set(step.seconds) <= {"prefill", "decode"}
        assert all(0 <= seconds < 10 for seconds in step.seconds.values())


def test_steps_say_who_started_and_how_many_run_and_wait(folder: Path) -> None:
    stage = _stage(folder, max_sequences=3, prefill_chunk_tokens=16)
    submits = [tokens(f"{n}", [n + 1] * (9 * n + 1), 4 + n) for n in range(7)]

    stage.play(stage.ended(*submits))

    steps = [step for step in stage.steps() if step.started or step.rows]
    assert stage.started() == [submit.id for submit in submits]
    _check_steps(steps, submits)
    phases = {phase for step in steps for phase, seconds in step.seconds.items() if seconds}
    assert phases == {"prefill", "decode"}
    assert [step.number for step in stage.steps()] == sorted(step.number for step in stage.steps())


def test_preempted_request_is_named_again_when_it_starts_again(folder: Path) -> None:
    stage = _stage(folder, max_sequences=3, prefill_chunk_tokens=16)
    first, second = tokens("first", [5] * 9, 60), tokens("second", [6] * 200, 5)

    def script() -> Script:
        yield [first]
        yield from stage.until(lambda: len(stage.answers["first"].ids) > 3)
        yield [second]
        yield from stage.until(lambda: "second" in stage.started())
        yield [Limits(MODEL, MemoryLimits(memory_bytes=stage.body.footprint_bytes + 1))]
        yield from stage.until(lambda: stage.have_ended(["first", "second"]))

    stage.play(script())

    assert stage.started() == ["first", "second", "second"]
    assert [len(step.preempted) for step in stage.steps() if step.preempted] == [1]
    assert stage.answers["second"].ids == _plain(folder, [6] * 200, 5)


@pytest.mark.parametrize(
    ("length", "count"),
    [(1, 1), (1, 9), (16, 1), (17, 2), (50, 9), (_CONTEXT - 1, 1), (200, _CONTEXT - 200)],
)
@pytest.mark.parametrize("kind", ["batched", "simple"])
def test_prompt_of_any_length_has_its_own_answer(
    folder: Path, length: int, count: int, kind: EngineKind
) -> None:
    ids = [(index * 37 + length) % 250 for index in range(length)]
    engine = EngineSettings(prefill_chunk_tokens=16, max_sequences=4, kind=kind)
    stage = Stage(load_body, folder, engine)

    stage.play(stage.ended(tokens("it", ids, count)))

    assert stage.answers["it"].ids == _plain(folder, ids, count)


@pytest.mark.parametrize("spread", [0, 3], ids=["alike", "nearly alike"])
def test_prompts_read_together_have_their_own_answers(folder: Path, spread: int) -> None:
    stage = _stage(folder, max_sequences=16, prefill_chunk_tokens=256)
    prompts = [[7, 9, 40 + n * bool(spread)] * (6 + n % (spread + 1)) for n in range(12)]
    submits = [tokens(f"{n}", ids, 8) for n, ids in enumerate(prompts)]

    stage.play(stage.ended(*submits))

    assert [stage.answers[each.id].ids for each in submits] == [
        _plain(folder, ids, 8) for ids in prompts
    ]


def test_more_requests_than_places_are_all_served(folder: Path) -> None:
    stage = _stage(folder, max_sequences=32)
    submits = [tokens(f"{n}", [n + 1] * (n % 5 + 1), 6) for n in range(40)]

    stage.play(stage.ended(*submits))

    assert max(step.batch_size for step in stage.steps()) == 32
    assert max(step.waiting for step in stage.steps()) == 8
    assert [len(stage.answers[each.id].ids) for each in submits] == [6] * 40
