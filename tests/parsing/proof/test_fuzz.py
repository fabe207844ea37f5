"""No text makes a reader fail, lose a character or take longer than in proportion to its length."""

import itertools
import time
from collections.abc import Iterator

import pytest

from appliance.parsing.format import AnswerFormat
from appliance.parsing.parser import AnswerParser
from tests.parsing.answer_reading import fold, read_pieces
from tests.parsing.proof.fuzz import TOOLBOX, draw_texts, formats, lost_text, read_letters

FORMATS = [pytest.param(form, id=f"{form.reasoning}-{form.tools}") for form in formats()]
_FEW, _MANY = 60, 100_000 // len(FORMATS) + 1
_LONG, _DEEP, _LETTERS = 100_000, 16_000, 2_000
_SETTLED, _TRIALS = 0.005, 4


def check_texts(form: AnswerFormat, count: int) -> None:
    for text, parts in draw_texts(form, count):
        read = read_letters(form, text)

        assert lost_text(form, text, read) == "", text
        assert fold(read_pieces(parts, form, TOOLBOX)) == fold(it for it, _ in read), parts


@pytest.mark.parametrize("form", FORMATS)
def test_no_character_of_some_texts_is_lost(form: AnswerFormat) -> None:
    check_texts(form, _FEW)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", FORMATS)
def test_no_character_of_many_texts_is_lost(form: AnswerFormat) -> None:
    check_texts(form, _MANY)


def seconds_of(form: AnswerFormat, text: str, size: int) -> float:
    """Return the processor's time for reading a text in pieces of a size."""
    parser = AnswerParser(form, TOOLBOX)
    started = time.thread_time()
    for at in range(0, len(text), size):
        parser.feed(text[at : at + size])
    parser.end()
    return time.thread_time() - started


def is_in_proportion(form: AnswerFormat, text: str, size: int) -> bool:
    """Say whether eight times the text takes less than 16 times as long, at one of some trials."""
    return any(
        seconds_of(form, text, size)
        < _SETTLED + 16 * seconds_of(form, text[: len(text) // 8], size)
        for _ in range(_TRIALS)
    )


def long_texts(form: AnswerFormat) -> Iterator[str]:
    """Yield texts of which a reader might look at each character again and again."""
    marks = form.marks()
    for unit in ("<", "[", "{", '"', "\n", " ", "look", "look(", *marks):
        yield unit * (_LONG // len(unit))
    heads = ('{"name": "look", "arguments": {"q": ', "look", '{"q": ', "look\n", "[look(q=")
    for mark, head, rest in itertools.product(marks, heads, ("[", '{"a":')):
        yield f"{mark}{head}{rest * _DEEP}"[:_DEEP]
    for mark in marks:
        yield f'{mark}{{"name": "look", "arguments": {{"q": "x"}}}}'.ljust(_DEEP, "b")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", FORMATS)
def test_long_text_takes_time_in_proportion(form: AnswerFormat) -> None:
    for text in long_texts(form):
        assert len(text) < _LONG // 2 or seconds_of(form, text, len(text)) < 1, text[:80]
        assert is_in_proportion(form, text[:_DEEP], _DEEP), text[:80]
        assert is_in_proportion(form, text[:_LETTERS], 1), text[:80]
