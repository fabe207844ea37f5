"""Bound answers keep to their grammar and their thought's budget, and disturb nobody."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from appliance.chat.grammar import Grammar
from appliance.chat.request import SamplingParams
from appliance.chat.tokenizer import Tokenizer
from appliance.engine.device import Device
from appliance.engine.guidance import Guidance
from appliance.engine.wire import (
    EngineKind,
    EngineSettings,
    Limits,
    MemoryLimits,
    Submit,
    ThoughtRule,
)
from appliance.parsing.format import AnswerFormat
from tests.engine.faulty_model import ONCE, write_faulty_model
from tests.engine.stage import CPU, GPU, Script, Stage, open_as
from tests.engine.worker_client import GREEDY, MODEL, Answer, WorkerClient, cancel, tokens
from tests.tiny_models import write_tiny_model

pytestmark = pytest.mark.mlx

_PROMPT = [5, 80, 33, 12, 200, 7]
_EOS = 257
_THINK, _END_THINK = 258, 259
_FORM = AnswerFormat("qwen3")
_MARKS = ("<think>", "</think>")
_HOT = SamplingParams(temperature=1.5, seed=7)
_SECONDS = 20


def _write_thinker(folder: Path) -> Path:
    """Write a tiny model with thinking marks among its special tokens."""
    write_tiny_model(folder, "llama", _EOS, vocab_size=264)
    path = folder / "tokenizer_config.json"
    marks = {"think": "<think>", "end_think": "</think>"}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"extra_special_tokens": marks}))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write_thinker(tmp_path_factory.mktemp("thinker"))


@pytest.fixture(scope="module")
def worker(folder: Path) -> Iterator[WorkerClient]:
    client = WorkerClient.in_process()
    client.load(folder, EngineSettings(prefill_chunk_tokens=16, max_sequences=16))
    yield client
    client.close()


def _schema(number: int) -> Grammar:
    """Return the grammar of an object with this id, written without needless space."""
    schema = {
        "type": "object",
        "properties": {"id": {"const": number}, "ok": {"type": "boolean"}},
        "required": ["id", "ok"],
        "additionalProperties": False,
        "x-guidance": {"whitespace_flexible": False},
    }
    return Grammar(f"start: %json {json.dumps(schema)}")


def _bound(name: str, number: int, sampling: SamplingParams = _HOT, **fields: Any) -> Submit:  # noqa: ANN401
    grammar = _schema(number)
    return tokens(
        name,
        _PROMPT,
        150,
        sampling,
        ignore_eos=False,
        grammar=grammar,
        shown=("</think>",),
        **fields,
    )


def _free(name: str, seed: int) -> Submit:
    return tokens(name, [*_PROMPT, seed], 40, SamplingParams(temperature=1.2, seed=seed))


def _ready(stage: Stage, *submits: Submit) -> None:
    """Wait until the body has compiled what these need: turns of a stage take no time."""
    for submit in submits:
        done = Event()
        assert stage.body.prepare(submit, done.set) or done.wait(_SECONDS)


def _text(folder: Path, answer: Answer) -> str:
    """Return what a stage, which makes no text, would have made of the ids."""
    return Tokenizer.load(folder).decode(answer.ids[:-1])


def _assert_obeys(text: str, answer: Answer, number: int) -> None:
    assert json.loads(text.rpartition("</think>")[2])["id"] == number
    assert answer.end.reason == "stop"


@pytest.mark.parametrize("kind", ["batched", "simple"])
@pytest.mark.parametrize("device", [CPU, GPU])
def test_bound_and_free_answers_are_what_they_are_alone(
    folder: Path, kind: EngineKind, device: Device
) -> None:
    engine = EngineSettings(kind=kind, prefill_chunk_tokens=16, max_sequences=8)
    stage = Stage(open_as(device), folder, engine)
    bound = [_bound(f"bound-{n}", n, each) for n, each in enumerate([GREEDY, _HOT, _HOT])]

    def script() -> Script:
        _ready(stage, *bound)
        for number in range(3):
            yield from stage.ended(_free(f"alone-{number}", number))
        crowd = [_free(f"crowd-{number}", number) for number in range(3)]
        yield from stage.ended(*bound, *crowd)

    stage.play(script())

    for number in range(3):
        answer = stage.answers[f"bound-{number}"]
        _assert_obeys(_text(folder, answer), answer, number)
        assert stage.answers[f"crowd-{number}"].ids == stage.answers[f"alone-{number}"].ids


def test_identical_requests_at_once_each_get_their_own_answer(worker: WorkerClient) -> None:
    asked = [_bound(f"own-{n}", n, SamplingParams(temperature=1.0, seed=1)) for n in range(16)]

    answers = worker.ask(*asked)

    for number, answer in enumerate(answers):
        _assert_obeys(answer.text, answer, number)


@pytest.mark.parametrize("budget", [0, 1, 16])
@pytest.mark.parametrize("sampling", [GREEDY, _HOT])
def test_thought_ends_by_its_budget_and_the_answer_obeys(
    worker: WorkerClient, budget: int, sampling: SamplingParams
) -> None:
    rule = ThoughtRule(_FORM, "<think>", budget)
    name = f"budget-{budget}-{sampling.temperature}"

    (answer,) = worker.ask(_bound(name, 5, sampling, thought=rule))

    _assert_obeys(answer.text, answer, 5)
    assert answer.ids.index(_END_THINK) == budget


def test_closing_mark_of_several_tokens_is_forced_whole(worker: WorkerClient, folder: Path) -> None:
    form = AnswerFormat("mistral")
    rule = ThoughtRule(form, "[THINK]", 3)

    (answer,) = worker.ask(tokens("several", _PROMPT, 20, _HOT, thought=rule, shown=form.marks()))

    closing = "[/THINK]"
    ids = Tokenizer.load(folder).encode(closing)
    assert answer.ids[3 : 3 + len(ids)] == ids
    assert closing in answer.text
    assert len(answer.ids) == 20


def test_thought_that_the_model_opens_counts_from_there(worker: WorkerClient) -> None:
    rule = ThoughtRule(_FORM, budget=4)
    likely = SamplingParams(temperature=0, logit_bias={_THINK: 1e4})
    opened = tokens("opened", _PROMPT, 20, likely, thought=rule, shown=_MARKS)

    (answer,) = worker.ask(opened)

    assert answer.ids[0] == _THINK
    assert answer.ids.index(_END_THINK) == 5
    assert answer.text.startswith("<think>")


def test_budget_of_nothing_ends_thoughts_at_once_and_lets_none_follow(worker: WorkerClient) -> None:
    rule = ThoughtRule(_FORM, budget=0)
    likely = SamplingParams(temperature=0, logit_bias={_THINK: 1e4})

    (answer,) = worker.ask(tokens("ended", _PROMPT, 8, likely, thought=rule, shown=_MARKS))

    assert answer.ids[:6] == 3 * [_THINK, _END_THINK]
    assert answer.ids[6] != _THINK


@pytest.mark.parametrize("budget", [0, 1, 9])
def test_answer_without_thoughts_is_what_it_is_without_a_budget(
    worker: WorkerClient, budget: int
) -> None:
    sure = SamplingParams(temperature=0, logit_bias={_THINK: -1e4})
    name = f"thoughtless-{budget}"

    free, budgeted = worker.ask(
        tokens(f"{name}-free", _PROMPT, 60, sure),
        tokens(name, _PROMPT, 60, sure, thought=ThoughtRule(_FORM, budget=budget), shown=_MARKS),
    )

    assert budgeted.ids == free.ids


def test_free_rows_beside_a_thinking_one_are_undisturbed(worker: WorkerClient) -> None:
    rule = ThoughtRule(_FORM, "<think>", 9)
    (alone,) = worker.ask(_free("thinkless-alone", 3))

    thinking, crowd = worker.ask(
        tokens("thinking", _PROMPT, 30, _HOT, thought=rule, shown=_MARKS), _free("thinkless", 3)
    )

    assert thinking.ids.index(_END_THINK) == 9
    assert crowd.ids == alone.ids


def _fail_once(stage: Stage) -> Script:
    yield from stage.ended(tokens("short", [9, ONCE, 9], 4))


def _shrink(stage: Stage) -> Script:
    yield [Limits(MODEL, MemoryLimits(memory_bytes=stage.body.footprint_bytes + 1))]
    yield from stage.until(lambda: bool(stage.steps()[-1].preempted))
    yield [Limits(MODEL, MemoryLimits(memory_bytes=2**40))]


@pytest.mark.parametrize("preempt", [_fail_once, _shrink])
def test_preempted_answer_goes_on_in_its_grammar(
    tmp_path: Path, preempt: Callable[[Stage], Script]
) -> None:
    engine = EngineSettings(prefill_chunk_tokens=16, max_sequences=4, trust_remote_code=True)
    folder = write_faulty_model(tmp_path / "faulty")
    stage = Stage(open_as(CPU), folder, engine)
    asked = [_bound("alone", 42), _bound("preempted", 42)]

    def script() -> Script:
        _ready(stage, *asked)
        yield from stage.ended(asked[0])
        yield [tokens("mate", _PROMPT, 150)]
        yield [asked[1]]
        yield from stage.until(lambda: len(stage.answers["preempted"].ids) > 3)
        yield from preempt(stage)
        yield from stage.until(lambda: stage.have_ended(["preempted"]))

    stage.play(script())

    assert "preempted" in [name for step in stage.steps() for name in step.preempted]
    alone, preempted = stage.answers["alone"], stage.answers["preempted"]
    assert preempted.ids == alone.ids
    _assert_obeys(_text(folder, preempted), preempted, 42)


def test_grammar_that_cannot_be_compiled_is_refused(worker: WorkerClient) -> None:
    wrong = Grammar('start: %json {"type": "bogus"}')

    answer, other = worker.ask(
        tokens("wrong", _PROMPT, 5, grammar=wrong), tokens("right", _PROMPT, 5)
    )

    assert answer.refused is not None
    assert answer.refused.error.kind == "invalid_request"
    assert "bogus" in answer.refused.error.message
    assert answer.accepted is None
    assert len(other.ids) == 5


def test_thought_without_marks_is_refused(worker: WorkerClient) -> None:
    (answer,) = worker.ask(_bound("markless", 1, thought=ThoughtRule(AnswerFormat())))

    assert answer.refused is not None


def test_answer_that_may_say_nothing_more_fails_alone(worker: WorkerClient, folder: Path) -> None:
    # No text is both.
    grammar = Grammar('start: "a" A\nA: /a+/ & /b+/')

    answer, other = worker.ask(
        tokens("stuck", _PROMPT, 5, grammar=grammar), tokens("fine", _PROMPT, 5)
    )

    assert answer.ids == Tokenizer.load(folder).encode("a")
    assert answer.end.error is not None
    assert answer.end.error.kind == "step_failed"
    assert len(other.ids) == 5


def test_cancel_ends_a_bound_answer(worker: WorkerClient) -> None:
    worker.send(tokens("cancelled", _PROMPT, 200, _HOT, grammar=Grammar("start: /[a-z]+/")))
    worker.until(lambda _: len(worker.answers.get("cancelled", Answer()).ids) > 3)

    worker.send(cancel("cancelled"))
    worker.until_ended(["cancelled"])

    assert worker.answers["cancelled"].end.reason == "cancelled"


def test_grammar_stays_compiled_for_as_long_as_its_request_is_there(folder: Path) -> None:
    guidance = Guidance(Tokenizer.load(folder), 264)
    first = _bound("first", 1)
    for number in range(140):
        # More than are kept.
        submit = first if number == 0 else _bound(f"{number}", number)
        done = Event()
        assert guidance.prepare(submit, done.set) or done.wait(_SECONDS)
        guidance.check(submit)

    assert not guidance.prepare(_bound("again", 1), lambda: None)
    assert guidance.guide(first, []) is not None
    del first, submit
    assert not len(guidance)


def test_end_token_is_told_apart_from_shown_marks(worker: WorkerClient) -> None:
    biased = SamplingParams(temperature=0, logit_bias={_THINK: 1e4})

    shown, hidden = worker.ask(
        tokens("shown", _PROMPT, 2, biased, shown=("a<think>b",)),
        tokens("hidden", _PROMPT, 2, biased),
    )

    assert (shown.text, hidden.text) == ("<think><think>", "")
