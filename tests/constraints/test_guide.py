"""An answer follows its thought's rules, then its grammar, and ends where that accepts."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.constraints.guide import Ending, GrammarGuide
from appliance.constraints.mask import MaskFiller
from appliance.constraints.thought import Phase
from tests.constraints.vocabularies import (
    EOS,
    SIZE,
    THINK,
    ids,
    match,
    tiny_vocabulary,
    watch,
)

_FILLER = MaskFiller(SIZE)
_OWN = Ending(frozenset([EOS]))


def _allowed(guide: GrammarGuide) -> set[int]:
    (words,) = _FILLER.fill([guide])
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")[:SIZE]
    return set(np.flatnonzero(bits).tolist())


def _bound(
    lark: str = 'start: "ab" | "a"', ending: Ending = _OWN, **thought: object
) -> GrammarGuide:
    watched = watch(**thought) if thought else None  # type: ignore[arg-type]
    return GrammarGuide(tiny_vocabulary(), ending, match(lark), watched)


def _take(guide: GrammarGuide, text: str) -> None:
    for token in ids(text):
        assert token in _allowed(guide)
        assert not guide.take(token)


def _wander(guide: GrammarGuide, seed: int, most: int = 60) -> list[int]:
    """Go on with any allowed token until the answer ends; the end token is left out."""
    rng = random.Random(seed)
    made: list[int] = []
    while len(made) < most:
        token = rng.choice(sorted(_allowed(guide)))
        if guide.take(token):
            return made
        made.append(token)
    raise AssertionError("The answer does not end.")


def _text(made: list[int]) -> str:
    return b"".join(map(tiny_vocabulary().token_bytes, made)).decode(errors="replace")


def test_end_token_comes_exactly_where_the_grammar_accepts() -> None:
    guide = _bound()
    seen = []

    for token in ids("ab"):
        seen.append(_allowed(guide))
        guide.take(token)

    assert seen == [{ord_id("a")}, {ord_id("b"), EOS}]
    assert _allowed(guide) == {EOS}
    assert guide.take(EOS)


def ord_id(letter: str) -> int:
    (number,) = ids(letter)
    return number


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([None, 0, 1, 16]), st.booleans())
def test_any_walk_is_a_thought_within_its_budget_and_an_answer(
    seed: int, budget: int | None, is_open: bool
) -> None:
    guide = _bound(r"start: /[0-4]{3}/", budget=budget or 0, is_open=is_open)
    if budget is None:
        guide = _bound(r"start: /[0-4]{3}/")

    thought, closing, answer = _text(_wander(guide, seed)).rpartition("</think>")

    assert len(answer.lstrip("\n")) == 3
    assert answer.count("\n") <= 2 * bool(closing)
    assert bool(closing) == (budget is not None and (is_open or bool(thought)))
    assert budget is None or len(thought.removeprefix("<think>").encode()) <= 4 * budget


def test_answer_may_begin_with_a_thought_or_with_the_grammar() -> None:
    guide = _bound(is_open=False)

    assert _allowed(guide) == {ord_id("a"), THINK}
    _take(guide, "<think>a</think>")
    assert _allowed(guide) == {ord_id("a"), ord_id("\n")}
    _take(guide, "\n\n")
    assert _allowed(guide) == {ord_id("a")}


def test_grammar_starts_anew_behind_a_thought_that_looked_like_it() -> None:
    guide = _bound('start: "<ab"', is_open=False, marks="<t> </t>")
    assert _allowed(guide) == {ord_id("<")}
    _take(guide, "<")
    assert _allowed(guide) == {ord_id("a"), ord_id("t")}

    _take(guide, "t>abc</t>")

    assert _allowed(guide) == {ord_id("<"), ord_id("\n")}
    _take(guide, "<ab")
    assert _allowed(guide) == {EOS}


def test_opening_that_is_abandoned_is_the_grammars_text() -> None:
    guide = _bound('start: "<ab"', is_open=False, marks="<t> </t>")

    _take(guide, "<ab")

    assert guide.phase is Phase.ANSWER
    assert _allowed(guide) == {EOS}


def test_thought_cannot_end_the_answer() -> None:
    guide = _bound(is_open=True)

    allowed = _allowed(guide)

    assert EOS not in allowed
    assert len(allowed) > 250


def test_budget_of_nothing_offers_no_thought_but_ends_one_that_the_grammar_lets_begin() -> None:
    guide = _bound(budget=0, marks="<t> </t>")
    free = _bound("start: /(.|\n)*/", budget=0, marks="<t> </t>")
    assert _allowed(guide) == {ord_id("a")}

    _take(free, "<t>")

    for letter in "</t>":
        assert _allowed(free) == {ord_id(letter)}
        free.take(ord_id(letter))
    assert EOS in _allowed(free)


def test_stop_tokens_end_the_answer_only_where_the_grammar_accepts() -> None:
    stop = ord_id("b")
    guide = _bound('start: "xbx"', Ending(frozenset([EOS]), frozenset([stop])))

    _take(guide, "xbx")

    assert _allowed(guide) == {EOS, stop}
    assert guide.take(stop)


def test_end_tokens_that_are_unwanted_come_where_nothing_else_can() -> None:
    guide = _bound(r"start: /a{1,3}/", Ending(frozenset([EOS]), min_tokens=2))
    ignoring = _bound(r"start: /a{1,3}/", Ending(frozenset([EOS]), ignores_own=True))

    _take(guide, "a")
    assert _allowed(guide) == {ord_id("a")}
    _take(guide, "a")
    assert _allowed(guide) == {ord_id("a"), EOS}
    _take(ignoring, "aaa")
    assert _allowed(ignoring) == {EOS}
    assert ignoring.take(EOS)


def test_replayed_answer_goes_on_as_it_would_have() -> None:
    guide = _bound(r"start: /[0-4]{9}/", budget=3, is_open=True)
    made = _wander(guide, 5)

    for length in range(len(made)):
        again = _bound(r"start: /[0-4]{9}/", budget=3, is_open=True)
        for token in made[:length]:
            again.take(token)
        assert made[length] in _allowed(again)


@pytest.mark.parametrize("tokens", ["b", "aa"])
def test_token_that_the_grammar_has_not_is_an_error_of_this_guide_only(tokens: str) -> None:
    wrong, right = _bound(), _bound()

    for token in ids(tokens):
        wrong.take(token)

    masks = _FILLER.fill([wrong, None, right])
    assert wrong.error
    assert masks.any(axis=-1).tolist() == [False, True, True]
    assert (masks[1] == np.uint32(0xFFFFFFFF)).all()
    assert _allowed(right) == {ord_id("a")}
