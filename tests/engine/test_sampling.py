"""Each row of a batch samples by its own wishes, and by nothing else."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p

from appliance.chat.request import SamplingParams as Sampling
from appliance.engine.sampling import BatchSampler
from appliance.engine.wire import Submit, TokenPrompt
from tests.engine.sampling_reference import adjust, log_softmax, weigh

pytestmark = pytest.mark.mlx

VOCAB_SIZE = 24
STOP_IDS = frozenset({3, 7})
GREEDY = Sampling(temperature=0.0)
RANDOM = np.random.default_rng(5)
STEPS: list[list[float]] = RANDOM.normal(0, 2, (6, VOCAB_SIZE)).astype(np.float32).tolist()


def make_submit(
    sampling: Sampling = GREEDY,
    *,
    prompt: Sequence[int] = (1, 2, 2),
    min_tokens: int = 0,
    logprobs: int | None = None,
) -> Submit:
    return Submit(
        model="m",
        id="a",
        prompt=TokenPrompt(list(prompt)),
        max_tokens=64,
        min_tokens=min_tokens,
        logprobs=logprobs,
        sampling=sampling,
    )


CROWD = [
    make_submit(),
    make_submit(Sampling(seed=1)),
    make_submit(Sampling(seed=2, top_p=0.7, temperature=0.8)),
    make_submit(Sampling(seed=3, top_k=5, temperature=2.0)),
    make_submit(Sampling(seed=4, min_p=0.05)),
    make_submit(
        Sampling(seed=5, repetition_penalty=1.4, frequency_penalty=0.6, presence_penalty=-0.5)
    ),
    make_submit(Sampling(temperature=0.0, logit_bias={4: 3.0, 9: -100.0}, repetition_penalty=0.7)),
    make_submit(Sampling(seed=-(2**64), top_p=0.9, top_k=7, min_p=0.01), min_tokens=3, logprobs=2),
]


def fill(
    submits: Sequence[Submit], produced: Sequence[int] = (), *, vocab_size: int = VOCAB_SIZE
) -> BatchSampler:
    sampler = BatchSampler(vocab_size)
    sampler.resize([None] * len(submits))
    for row, submit in enumerate(submits):
        sampler.join(row, submit, produced, STOP_IDS)
    return sampler


def sample(sampler: BatchSampler, logits: mx.array) -> list[int]:
    return cast(list[int], sampler(logits).tokens.tolist())


def step(sampler: BatchSampler, logits: Sequence[float], size: int) -> list[int]:
    return sample(sampler, mx.array([logits] * size))


def answer_alone(submit: Submit, produced: Sequence[int] = ()) -> list[int]:
    """What the steps from the first that is not produced yet give the request on its own."""
    sampler = fill([submit], produced)
    return [step(sampler, logits, 1)[0] for logits in STEPS[len(produced) :]]


ALONE = [answer_alone(submit) for submit in CROWD]


def test_a_crowd_gives_each_row_what_it_gets_alone() -> None:
    sampler = fill(CROWD)

    answers = [step(sampler, logits, len(CROWD)) for logits in STEPS]

    assert [list(answer) for answer in zip(*answers, strict=True)] == ALONE


def test_rows_may_move_while_others_come_and_go() -> None:
    sampler = fill(CROWD)
    step(sampler, STEPS[0], 8)
    sampler.leave(2)
    second = step(sampler, STEPS[1], 8)
    sampler.resize([7, None, 5, 6, 1, None])
    sampler.join(5, CROWD[2], ALONE[2][:2], STOP_IDS)
    third = step(sampler, STEPS[2], 6)
    sampler.resize([2])
    fourth = step(sampler, STEPS[3], 1)

    assert second[3:] == [answer[1] for answer in ALONE[3:]]
    assert [third[row] for row in (0, 2, 3, 4, 5)] == [ALONE[old][2] for old in (7, 5, 6, 1, 2)]
    assert fourth == [ALONE[5][3]]


@pytest.mark.parametrize("row", range(len(CROWD)))
def test_a_preempted_request_goes_on_as_before(row: int) -> None:
    resumed = [answer_alone(CROWD[row], ALONE[row][:made]) for made in range(len(STEPS))]

    assert resumed == [ALONE[row][made:] for made in range(len(STEPS))]


def test_more_logits_than_rows_are_empty_rows() -> None:
    sampler = fill(CROWD[5:6])

    answers = [step(sampler, logits, 4)[0] for logits in STEPS]

    assert answers == ALONE[5]


def test_seeds_are_apart_and_an_absent_one_is_random() -> None:
    seeds = [0, 1, -1, 2**63, 2**64, -(2**64), None, None]
    sampler = fill([make_submit(Sampling(seed=seed)) for seed in seeds], vocab_size=500)

    answers = [sample(sampler, mx.zeros((8, 500))) for _ in range(8)]

    assert len(set(zip(*answers, strict=True))) == 8
    # Neighbouring seeds do not give each other's draws one token later either.
    assert len({token for made in answers for token in made}) > 50


def draw_many(submits: Sequence[Submit], logits: Sequence[float]) -> npt.NDArray[np.int64]:
    """How often each token is drawn first."""
    sampler = fill(submits)
    return np.bincount(step(sampler, logits, len(submits)), minlength=len(logits))


FILTERS: list[dict[str, Any]] = [
    {},
    {"top_p": 0.6},
    {"top_p": 1e-300},
    {"top_k": 1},
    {"top_k": 6},
    {"top_k": VOCAB_SIZE + 5},
    {"top_k": -1},
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"top_p": 0.9, "top_k": 4, "min_p": 0.02},
    {"top_p": 0.5, "top_k": 20, "min_p": 0.02},
]


@pytest.mark.parametrize("wishes", FILTERS)
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_draws_follow_the_weights(wishes: dict[str, Any], temperature: float) -> None:
    submits = [
        make_submit(Sampling(seed=seed, temperature=temperature, **wishes)) for seed in range(2000)
    ]
    expected = 2000 * weigh(np.array(STEPS[0]), submits[0].sampling)

    drawn = draw_many(submits, STEPS[0])

    is_possible = expected > 0
    assert not drawn[~is_possible].any()
    misfit = ((drawn - expected)[is_possible] ** 2 / expected[is_possible]).sum()
    # Five standard deviations of a chi-square variable above its mean.
    freedom = is_possible.sum() - 1
    assert misfit <= freedom + 5 * math.sqrt(2 * freedom)


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """mlx-lm compiles its filters anew for each value, with a C++ compiler on Linux."""
    mx.disable_compile()
    yield
    mx.enable_compile()


# With so little top_p, mlx-lm keeps nothing.
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("wishes", [wish for wish in FILTERS if wish.get("top_p", 1) > 0.1])
def test_filters_keep_what_those_of_mlx_lm_keep(wishes: dict[str, Any]) -> None:
    kept = mx.array([log_softmax(STEPS[1]).tolist()])
    if wishes.get("top_p", 1.0) < 1:
        kept = apply_top_p(kept, wishes["top_p"])
    if wishes.get("min_p"):
        kept = apply_min_p(kept, wishes["min_p"])
    if 0 < wishes.get("top_k", 0) < VOCAB_SIZE:
        kept = apply_top_k(kept, wishes["top_k"])
    submits = [make_submit(Sampling(seed=seed, temperature=1e308, **wishes)) for seed in range(600)]

    drawn = draw_many(submits, STEPS[1])

    assert (drawn > 0).tolist() == mx.isfinite(kept[0]).tolist()


def test_a_narrow_cut_keeps_what_a_full_sort_keeps() -> None:
    logits = mx.random.normal((1, 300), key=mx.random.key(2))
    wishes = [
        make_submit(Sampling(seed=seed, temperature=9.0, top_k=20, top_p=0.5)) for seed in range(40)
    ]
    mate = make_submit(Sampling(seed=1, top_p=0.9))

    narrow = sample(fill(wishes, vocab_size=300), mx.repeat(logits, 40, axis=0))
    full = sample(fill([*wishes, mate], vocab_size=300), mx.repeat(logits, 41, axis=0))

    likeliest = np.argsort(-np.array(logits[0]))[:20]
    assert full[:40] == narrow
    assert 1 < len(set(narrow)) <= len(set(narrow) | set(likeliest.tolist())) == 20


def test_top_k_keeps_the_lower_ids_of_equals() -> None:
    submits = [make_submit(Sampling(seed=seed, top_k=3)) for seed in range(200)]

    drawn = draw_many(submits, [0.0, 1.0, 1.0, 2.0, 1.0])

    assert (drawn > 0).tolist()[:5] == [False, True, True, True, False]


@pytest.mark.parametrize("temperature", [0.0, 1e-300, 1e-8, 1e-5])
def test_hardly_any_temperature_takes_the_likeliest(temperature: float) -> None:
    submits = [make_submit(Sampling(seed=seed, temperature=temperature)) for seed in range(50)]

    drawn = draw_many(submits, STEPS[2])

    assert drawn[np.argmax(STEPS[2])] == 50


def test_a_forbidden_token_is_never_drawn() -> None:
    logits = [-math.inf] * 20 + [0.0, -1e4, 3.0, -math.inf]
    hot = [Sampling(seed=seed, temperature=1e308) for seed in range(200)]
    cut = [Sampling(seed=seed, temperature=1e308, top_k=9, top_p=0.999) for seed in range(200)]

    drawn = draw_many([make_submit(sampling) for sampling in hot + cut], logits)

    assert set(np.flatnonzero(drawn).tolist()) <= {20, 21, 22}


def test_min_tokens_hold_back_every_stop_token_whatever_the_bias() -> None:
    submit = make_submit(Sampling(temperature=0.0, logit_bias={3: 100.0, 7: 90.0}), min_tokens=2)
    sampler = fill([submit, make_submit()])

    made = [step(sampler, STEPS[0], 2)[0] for _ in range(4)]

    assert made == [int(np.argmax(adjust(STEPS[0], submit, [], STOP_IDS)))] * 2 + [3, 3]


def pack(*allowed: set[int] | None) -> mx.array:
    """Return the mask of rows that may have these tokens; None is all."""
    rows = [range(VOCAB_SIZE) if tokens is None else tokens for tokens in allowed]
    return mx.array([[sum(1 << token for token in tokens)] for tokens in rows], dtype=mx.uint32)


def test_rows_have_only_what_their_mask_allows_and_the_others_what_they_had() -> None:
    alone = [answer_alone(submit) for submit in CROWD]
    sampler = fill([*CROWD, *CROWD])
    masks = pack(*[None] * len(CROWD), *[{2, 11}] * len(CROWD))
    rows: list[list[int]] = []

    for logits in STEPS:
        made = sampler(mx.array([logits] * 2 * len(CROWD)), masks)
        assert all(cast(list[bool], made.is_sound.tolist()))
        rows.append(cast(list[int], made.tokens.tolist()))

    answers = [list(answer) for answer in zip(*rows, strict=True)]
    assert answers[: len(CROWD)] == alone
    assert {token for answer in answers[len(CROWD) :] for token in answer} <= {2, 11}


def test_masked_draws_follow_the_weights_of_what_is_allowed() -> None:
    sampler = fill([make_submit(Sampling(seed=seed)) for seed in range(2000)])
    logits = [0.0] * VOCAB_SIZE
    logits[5] = math.log(3)

    made = sampler(mx.array([logits] * 2000), pack(*[{5, 6}] * 2000))

    tokens = cast(list[int], made.tokens.tolist())
    assert set(tokens) == {5, 6}
    assert 1400 < tokens.count(5) < 1600


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(seed=1, top_p=0.5)])
def test_a_row_that_is_allowed_nothing_possible_is_unsound(sampling: Sampling) -> None:
    sampler = fill([make_submit(sampling), make_submit(sampling)])
    logits = [0.0] * VOCAB_SIZE
    logits[4] = -math.inf

    made = sampler(mx.array([logits, logits]), pack({4}, {4, 8}))

    assert made.is_sound.tolist() == [False, True]
    assert cast(list[int], made.tokens.tolist())[1] == 8


def test_unsound_rows_are_named_and_leave_the_others_alone() -> None:
    rows = [list(STEPS[0]) for _ in CROWD]
    rows[0][5], rows[4][23], rows[6][0] = math.nan, math.nan, math.inf
    rows[3] = [-math.inf] * VOCAB_SIZE
    rows[1][2] = -math.inf
    sampler = fill(CROWD)

    sampled = sampler(mx.array(rows))
    after = sample(sampler, mx.array([STEPS[1]] * len(CROWD)))

    healthy = mx.array([2, 5, 7])
    assert sampled.is_sound.tolist() == [row not in (0, 3, 4, 6) for row in range(8)]
    assert sampled.tokens[healthy].tolist() == [ALONE[row][0] for row in (2, 5, 7)]
    assert [after[row] for row in (2, 5, 7)] == [ALONE[row][1] for row in (2, 5, 7)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float16])
def test_unsound_rows_are_named_when_all_are_greedy(bad: float, dtype: mx.Dtype) -> None:
    logits = mx.full((3, 40_000), 9.0, dtype=dtype)
    logits[1, 39_999] = bad
    logits[2, :39_999] = -mx.inf

    sampled = BatchSampler(40_000)(logits)

    assert sampled.is_sound.tolist() == [True, False, True]
    assert sampled.tokens[::2].tolist() == [0, 39_999]


def test_a_row_with_nothing_left_is_unsound() -> None:
    sampler = BatchSampler(2)
    sampler.join(0, make_submit(Sampling(seed=1), prompt=[0], min_tokens=1), (), frozenset({0, 1}))

    first, second = sampler(mx.zeros((1, 2))), sampler(mx.zeros((1, 2)))

    assert (first.is_sound.tolist(), second.is_sound.tolist()) == ([False], [True])


def test_logprobs_are_those_of_the_raw_logits() -> None:
    hot = Sampling(seed=1, temperature=3.0, logit_bias={2: 5.0}, repetition_penalty=2.0)
    sampler = fill([make_submit(hot, logprobs=num_tops) for num_tops in (0, 5, 20)])
    expected = log_softmax(STEPS[0])
    falling = np.argsort(-expected)

    sampled = sampler(mx.array([STEPS[0]] * 3))

    for row, num_tops in enumerate((0, 5, 20)):
        said = sampled.logprob(row, num_tops)
        assert said.logprob == pytest.approx(expected[said.id], abs=1e-5)
        assert [top.id for top in said.top] == falling[:num_tops].tolist()
        tops = [top.logprob for top in said.top]
        assert tops == pytest.approx(expected[falling[:num_tops]].tolist(), abs=1e-5)


def test_logprobs_cost_nothing_unless_asked_for() -> None:
    sampler = fill([make_submit()])
    without = sampler(mx.array([STEPS[0]]))
    sampler.join(1, make_submit(logprobs=0), (), STOP_IDS)

    chosen_only = sampler(mx.array([STEPS[0]] * 2))

    assert (without.logprobs, len(without.arrays())) == (None, 3)
    assert chosen_only.logprob(1, 0).top == []


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    seed=st.integers(-(2**64), 2**64),
    top_p=st.sampled_from([1.0, 0.9, 0.4]),
    top_k=st.sampled_from([0, 1, 4, VOCAB_SIZE]),
    min_p=st.sampled_from([0.0, 0.03]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.8]),
    frequency_penalty=st.sampled_from([0.0, 0.7, -2.0]),
    presence_penalty=st.sampled_from([0.0, 1.1]),
    logit_bias=st.dictionaries(
        st.integers(0, VOCAB_SIZE - 1), st.sampled_from([-100.0, 1.5, 100.0]), max_size=3
    ),
)
requests = st.builds(
    make_submit,
    samplings,
    prompt=st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=6),
    min_tokens=st.integers(0, 4),
    logprobs=st.sampled_from([None, 0, 3, 20]),
)


@settings(deadline=None, max_examples=40)
@given(submits=st.lists(requests, min_size=1, max_size=6))
def test_any_mix_samples_what_each_row_may(submits: list[Submit]) -> None:
    sampler = fill(submits)

    steps = [step(sampler, logits, len(submits)) for logits in STEPS]

    for submit, tokens in zip(submits, zip(*steps, strict=True), strict=True):
        assert list(tokens) == answer_alone(submit)
        for made, (token, logits) in enumerate(zip(tokens, STEPS, strict=True)):
            scores = adjust(logits, submit, tokens[:made], STOP_IDS)
            is_greedy = submit.sampling.temperature == 0
            least = scores.max() - 1e-4 if is_greedy else -math.inf
            assert scores[token] >= least
            assert is_greedy or weigh(scores, submit.sampling)[token] > 0
