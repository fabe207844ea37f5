"""One worker with a tiny Llama: sampling, ends, refusals and cancels."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from appliance.chat.request import SamplingParams
from appliance.chat.tokenizer import Tokenizer
from appliance.engine.wire import EngineSettings, ScriptPrompt, Step, Submit
from tests.engine.worker_client import GREEDY, MODEL, WorkerClient, cancel, tokens
from tests.tiny_models import VOCAB_SIZE, write_tiny_model

pytestmark = pytest.mark.mlx

_PROMPT = [5, 80, 33, 12, 200, 7]
_CONTEXT = 256
_NUM_IDS = itertools.count()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """The greedy answer to _PROMPT."""
    folder = write_tiny_model(tmp_path_factory.mktemp("plain"), "llama")
    model, _ = load_model(folder)
    return [int(token) for token, _ in generate_step(mx.array(_PROMPT), model, max_tokens=20)]


@pytest.fixture(scope="module")
def eos_index(plain: list[int]) -> int:
    """Where the answer meets the token that the served model calls its end."""
    return next(index for index in range(4, 20) if plain[index] not in plain[:index])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, plain: list[int], eos_index: int) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("served"), "llama", plain[eos_index])


@pytest.fixture(scope="module")
def llama(folder: Path) -> Iterator[WorkerClient]:
    client = WorkerClient.spawn()
    client.load(folder, EngineSettings(prefill_chunk_tokens=16, max_sequences=4))
    yield client
    client.close()


def _name() -> str:
    return f"request-{next(_NUM_IDS)}"


def test_answer_stops_before_the_end_token_and_counts_it(
    llama: WorkerClient, folder: Path, plain: list[int], eos_index: int
) -> None:
    (answer,) = llama.ask(tokens(_name(), _PROMPT, 20, ignore_eos=False))

    assert answer.end.reason == "stop"
    assert answer.end.completion_tokens == answer.tokens == eos_index + 1
    assert answer.ids == plain[: eos_index + 1]
    assert answer.text == Tokenizer.load(folder).decode(plain[:eos_index])


def test_answer_goes_on_past_the_end_token_when_it_is_ignored(
    llama: WorkerClient, folder: Path, plain: list[int]
) -> None:
    (answer,) = llama.ask(tokens(_name(), _PROMPT, 20))

    assert (answer.end.reason, answer.ids) == ("length", plain)
    assert answer.text == Tokenizer.load(folder).decode(plain)


@pytest.mark.parametrize("max_tokens", [1, 2, _CONTEXT - len(_PROMPT)])
def test_answer_has_max_tokens(llama: WorkerClient, max_tokens: int) -> None:
    (answer,) = llama.ask(tokens(_name(), _PROMPT, max_tokens))

    assert (answer.end.reason, len(answer.ids)) == ("length", max_tokens)


_SAMPLINGS = [
    SamplingParams(temperature=1.0, seed=1),
    SamplingParams(temperature=1.5, seed=2, top_p=0.9),
    SamplingParams(temperature=1.5, seed=2**64 - 1, top_k=40),
    SamplingParams(temperature=2.0, seed=-4, min_p=0.02, top_k=10**6, top_p=0.99),
]


def test_seeded_answer_is_the_same_alone_and_in_a_crowd(llama: WorkerClient) -> None:
    alone = [llama.ask(tokens(_name(), _PROMPT, 20, each))[0].ids for each in _SAMPLINGS]

    crowd = llama.ask(*(tokens(_name(), _PROMPT, 20, each) for each in _SAMPLINGS))

    assert [answer.ids for answer in crowd] == alone
    assert len({tuple(ids) for ids in alone}) == len(_SAMPLINGS)


def test_answer_without_a_seed_differs_each_time(llama: WorkerClient) -> None:
    free = SamplingParams(temperature=2.0)

    answers = llama.ask(*(tokens(_name(), _PROMPT, 20, free) for _ in range(3)))

    assert len({tuple(answer.ids) for answer in answers}) == 3


@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param(SamplingParams(temperature=5.0, top_k=1), id="top_k"),
        pytest.param(SamplingParams(temperature=5.0, top_p=1e-6), id="top_p"),
        pytest.param(SamplingParams(temperature=5.0, min_p=1.0), id="min_p"),
    ],
)
def test_narrowest_filter_leaves_the_greedy_answer(
    llama: WorkerClient, plain: list[int], sampling: SamplingParams
) -> None:
    (answer,) = llama.ask(tokens(_name(), _PROMPT, 20, sampling))

    assert answer.ids == plain


@pytest.mark.parametrize(
    ("ids", "max_tokens", "sampling", "kind", "param"),
    [
        pytest.param([], 5, GREEDY, "invalid_request", "prompt", id="empty"),
        pytest.param([VOCAB_SIZE], 5, GREEDY, "invalid_request", "prompt", id="vocabulary"),
        pytest.param([-1], 5, GREEDY, "invalid_request", "prompt", id="negative"),
        pytest.param([1], 0, GREEDY, "invalid_request", "max_tokens", id="max_tokens"),
        pytest.param([1], 5, SamplingParams(top_p=0.0), "invalid_request", "top_p", id="sampling"),
        pytest.param([1] * _CONTEXT, 1, GREEDY, "context_too_long", None, id="prompt"),
        pytest.param([1], _CONTEXT, GREEDY, "context_too_long", None, id="prompt and answer"),
    ],
)
def test_request_that_cannot_be_honoured_is_refused(
    llama: WorkerClient,
    ids: list[int],
    max_tokens: int,
    sampling: SamplingParams,
    kind: str,
    param: str | None,
) -> None:
    (answer,) = llama.ask(tokens(_name(), ids, max_tokens, sampling))

    assert answer.refused is not None
    assert (answer.refused.error.kind, answer.refused.error.param) == (kind, param)
    assert answer.accepted is None


def test_text_for_a_language_model_is_refused(llama: WorkerClient) -> None:
    (answer,) = llama.ask(Submit(MODEL, _name(), ScriptPrompt("hello", 1), 5))

    assert answer.refused is not None


def _is_empty(step: Step) -> bool:
    return (step.batch_size, step.waiting) == (0, 0)


def test_cancel_in_prefill_frees_the_sequence_within_a_step(llama: WorkerClient) -> None:
    for _ in range(9):  # on a busy machine the first ones may come when the prompt is read
        name = _name()
        seen = len(llama.steps())
        llama.send(tokens(name, [9] * 200, 50))
        llama.until(lambda frame: isinstance(frame, Step) and "prefill" in frame.seconds)
        llama.send(cancel(name))
        llama.until_ended([name])
        if llama.answers[name].tokens == 0:
            break

    steps = llama.steps()[seen:]
    assert llama.answers[name].end.reason == "cancelled"
    assert _is_empty(steps[-1])
    assert llama.answers[name].tokens == 0
    assert steps[-1].number - steps[0].number < 200 / 16


def test_cancel_in_decode_and_in_the_queue_frees_the_sequences(llama: WorkerClient) -> None:
    running = [_name() for _ in range(4)]
    waiting = _name()
    llama.send(*(tokens(name, _PROMPT, 240) for name in [*running, waiting]))
    llama.until(
        lambda _: all(name in llama.answers and llama.answers[name].ids for name in running)
    )

    llama.send(*(cancel(name) for name in [waiting, *running]))
    llama.until_ended([waiting, *running])

    last = llama.steps()[-1]
    assert _is_empty(last)
    assert all(llama.answers[name].end.reason == "cancelled" for name in [waiting, *running])
    assert all(len(llama.answers[name].ids) < 240 for name in running)
    assert llama.answers[waiting].tokens == 0


def test_worker_with_a_model_exits_when_the_parent_is_gone_in_decode(folder: Path) -> None:
    client = WorkerClient.spawn()
    client.load(folder, EngineSettings())
    client.send(tokens("id", _PROMPT, 240))
    client.until(lambda frame: isinstance(frame, Step) and bool(frame.rows))

    client.sock.close()

    assert client.process is not None
    assert client.process.wait(timeout=5) == 0
