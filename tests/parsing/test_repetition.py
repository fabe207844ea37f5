"""What goes round in circles is noticed soon; what only looks alike is left alone."""

import base64
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.parsing.repetition import RepetitionGuard

SENTENCE = "Wait, the sum must be checked once more, since the carry was left out. "
PARAGRAPH = "".join(random.Random(1).choices("abcdefgh ij", k=1900))
REFRAIN = "Row, row, row your boat,\nGently down the stream.\n"


def tripped_at(text: str, size: int = 6) -> int | None:
    """Return after how many characters a text that comes in pieces is given up; None: never."""
    guard = RepetitionGuard()
    for at in range(0, len(text), size):
        if guard.push(text[at : at + size]):
            return min(at + size, len(text))
    return None


@pytest.mark.parametrize(
    ("text", "most"),
    [
        pytest.param("check " * 2000, 300 * 6, id="a word"),
        pytest.param("So:\n" + SENTENCE * 100, 25 * len(SENTENCE), id="a sentence"),
        pytest.param(PARAGRAPH * 20, 7 * len(PARAGRAPH), id="a paragraph"),
        pytest.param("\n" * 5000, 1700, id="line ends"),
        pytest.param("0, " * 5000, 1700, id="zeros"),
    ],
)
def test_circles_are_noticed_soon(text: str, most: int) -> None:
    at = tripped_at(text)

    assert at is not None
    assert at <= most


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "".join(f"| {row} | Bern | 0.00 | as before |\n" for row in range(200)), id="a table"
        ),
        pytest.param("Title\n" + "=" * 900 + "\nText\n" + "-" * 900, id="rulers"),
        pytest.param(
            ",\n".join(f'{{"id": {at}, "tags": [], "ok": true}}' for at in range(300)), id="objects"
        ),
        pytest.param(
            base64.b64encode(random.Random(2).randbytes(9000) + bytes(900)).decode(), id="base64"
        ),
        pytest.param(
            "".join(f"Verse {n}: {word} it was.\n{REFRAIN}" for n, word in enumerate("abcdefgh")),
            id="a refrain",
        ),
        pytest.param(SENTENCE * 5, id="a few times"),
        pytest.param((PARAGRAPH + "!") * 5, id="a few paragraphs"),
    ],
)
def test_what_looks_alike_is_left_alone(text: str) -> None:
    assert tripped_at(text) is None


@given(st.lists(st.integers(1, 500), max_size=30), st.sampled_from(["ab ", SENTENCE, PARAGRAPH]))
def test_splitting_makes_no_difference(sizes: list[int], unit: str) -> None:
    text = "Begin. " + unit * (3000 // len(unit) + 7)
    whole, parted, at = RepetitionGuard(), RepetitionGuard(), 0

    for size in [*sizes, len(text)]:
        parted.push(text[at : at + size])
        at += size

    assert whole.push(text)
    assert parted.is_tripped


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("".join(random.Random(3).choices("ab", k=100_000)), id="two letters"),
        pytest.param("".join("a" * 70 + str(at) for at in range(1400)), id="almost alike"),
    ],
)
def test_time_is_linear_in_the_worst_text(text: str) -> None:
    started = time.process_time()

    assert tripped_at(text, 1) is None

    assert time.process_time() - started < 1
