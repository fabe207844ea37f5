"""Stop strings: cut before the match, whatever the pieces are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.parsing.stop import StopCutter


def cut(stops: tuple[str, ...], pieces: list[str]) -> tuple[str, str | None]:
    cutter = StopCutter(stops)
    text = "".join(cutter.push(piece) for piece in pieces)
    return text + (cutter.flush() if cutter.matched is None else ""), cutter.matched


@pytest.mark.parametrize(
    ("stops", "text", "kept", "matched"),
    [
        pytest.param((), "abc", "abc", None, id="none"),
        pytest.param(("b",), "abc", "a", "b", id="one"),
        pytest.param(("zz", "c"), "abc", "ab", "c", id="the second"),
        pytest.param(("abd",), "ababc", "ababc", None, id="almost, twice"),
        pytest.param(("aab",), "aaab", "a", "aab", id="overlapping itself"),
        pytest.param(("abc", "b"), "abc", "a", "b", id="the one complete first"),
        pytest.param(("bc", "abc"), "abc", "", "abc", id="the longer of two that end together"),
        pytest.param(("",), "abc", "abc", None, id="an empty one never matches"),
        pytest.param(("👋",), "a👋b", "a", "👋", id="beyond the basic plane"),
    ],
)
def test_stop_cuts_at_the_first_match(
    stops: tuple[str, ...], text: str, kept: str, matched: str | None
) -> None:
    assert cut(stops, [text]) == (kept, matched)


@given(
    st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=4),
    st.lists(st.text(alphabet="abc", max_size=5), max_size=12),
)
def test_stop_does_not_depend_on_the_pieces(stops: list[str], pieces: list[str]) -> None:
    text = "".join(pieces)

    assert cut(tuple(stops), pieces) == cut(tuple(stops), [text]) == cut(tuple(stops), list(text))


@given(
    st.lists(st.text(alphabet="ab", min_size=1, max_size=4), min_size=1, max_size=4),
    st.text(alphabet="abc", max_size=30),
)
def test_no_part_of_a_match_ever_leaves(stops: list[str], text: str) -> None:
    kept, matched = cut(tuple(stops), list(text))

    assert text.startswith(kept)
    if matched is None:
        assert kept == text and not any(stop in text for stop in stops)
    else:
        assert text[len(kept) :].startswith(matched)
        assert not any(stop in kept for stop in stops)
