"""A thought begins and ends by its marks' letters, wherever tokens cut them, or by its budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.constraints.thought import Marks, Phase, ThoughtWatch
from tests.constraints.vocabularies import END_THINK, watch

_PIECES = st.lists(st.text(st.sampled_from("<tg>/ a"), min_size=1, max_size=4), max_size=12)


def _push(watched: ThoughtWatch, *tokens: str) -> str:
    return b"".join(watched.push(token.encode()) for token in tokens).decode()


@given(_PIECES)
def test_open_thought_ends_with_its_first_closing_mark(pieces: list[str]) -> None:
    watched = watch(is_open=True, marks="<t> </t>")
    _, found, behind = "".join(pieces).partition("</t>")

    left = ""
    for piece in pieces:
        left += _push(watched, piece)

    assert (watched.phase is Phase.ANSWER) == bool(found)
    assert behind.startswith(left)


@given(_PIECES)
def test_thought_begins_only_at_the_start_and_behind_white_space(pieces: list[str]) -> None:
    watched = watch(marks="<t> </t>")
    text = "".join(pieces).lstrip()

    _push(watched, *pieces)

    if text.startswith("<t>"):
        is_over = "</t>" in text[3:]
        assert watched.phase is (Phase.ANSWER if is_over else Phase.THOUGHT)
    else:
        assert watched.phase is (Phase.OPENING if "<t>".startswith(text) else Phase.ANSWER)


@pytest.mark.parametrize("budget", [1, 2, 16])
def test_budget_counts_the_tokens_inside(budget: int) -> None:
    watched = watch(budget)

    _push(watched, "\n", "<thi", "nk>", *["a"] * (budget - 1))
    before = watched.phase
    _push(watched, "a")

    assert before is Phase.THOUGHT
    assert (watched.phase, watched.forced) == (Phase.CLOSING, [END_THINK])


def test_budget_of_nothing_closes_what_is_open_or_opened() -> None:
    opened = watch(0)

    _push(opened, "<thi", "nk>\n")

    assert watch(0, is_open=True).phase is Phase.CLOSING
    assert (opened.phase, opened.forced) == (Phase.CLOSING, [END_THINK])


def test_forced_mark_ends_the_thought_when_its_last_token_came() -> None:
    watched = watch(0, is_open=True, marks="<t> </t>")
    phases = []

    for letter in "</t>":
        phases.append(watched.phase)
        _push(watched, letter)

    assert phases == [Phase.CLOSING] * 4
    assert watched.phase is Phase.ANSWER


def test_thought_that_ends_in_time_forces_nothing() -> None:
    watched = watch(9, is_open=True)

    behind = _push(watched, "a</th", "ink>\n")

    assert (watched.phase, watched.forced, behind) == (Phase.ANSWER, [], "\n")


def test_white_space_that_an_opening_begins_with_may_be_missing() -> None:
    watched = ThoughtWatch.begin(Marks(b" to=t|", b"|", (1,)), is_open=False, budget=None)
    rests = [watched.rest_of_opening]

    for token in ("to", "=t|"):
        _push(watched, token)
        rests.append(watched.rest_of_opening)

    assert rests[:2] == [b" to=t|", b"=t|"]
    assert watched.phase is Phase.THOUGHT
