"""Marks are special tokens where the vocabulary has such, else text, or both in a row."""

import pytest
from llguidance import LLMatcher

from tests.constraints.vocabularies import CALL, ids, match, tiny_vocabulary


def _follows(matcher: LLMatcher, tokens: list[int]) -> bool:
    """Say whether a grammar takes these tokens and may then end."""
    return bool(matcher.consume_tokens(tokens)) and matcher.is_accepting()


def _letters(text: str) -> list[int]:
    return [tiny_vocabulary().meaning(bytes([byte]))[0] for byte in text.encode()]


@pytest.mark.parametrize(
    ("mark", "tokens"),
    [
        pytest.param("<|call|>", [CALL], id="special token"),
        pytest.param("<call>", _letters("<call>"), id="text"),
        pytest.param("<|call|>f", [CALL, *_letters("f")], id="token and text"),
        pytest.param("to=f<|call|>", [*_letters("to=f"), CALL], id="text and token"),
        pytest.param('"\\\n', _letters('"\\\n'), id="letters that are quoted"),
        pytest.param("<|call|><|call|>", [CALL, CALL], id="tokens"),
    ],
)
def test_mark_is_written_with_its_tokens_only(mark: str, tokens: list[int]) -> None:
    assert _follows(match('start: mark_0 "x"', mark), [*tokens, *ids("x")])
    if tokens != _letters(mark):
        assert not _follows(match('start: mark_0 "x"', mark), _letters(f"{mark}x"))


@pytest.mark.parametrize("mark", ["<|call|>", "<call>", "<|call|>f", "to=f<|call|>"])
def test_until_ends_with_the_first_mark(mark: str) -> None:
    lark = 'start: until_0 "x"'
    tokens = ids(mark)

    assert _follows(match(lark, mark), [*ids("some <\n"), *tokens, *ids("x")])
    assert _follows(match(lark, mark), [*tokens, *ids("x")])
    assert not _follows(match(lark, mark), [*tokens, *ids("y"), *tokens, *ids("x")])


@pytest.mark.parametrize("value", ["", "a</b>", "<", "</", "call|>p>"])
def test_value_may_have_the_letters_with_which_its_mark_begins(value: str) -> None:
    mark = "</<|call|>p>"

    assert _follows(match('start: until_0 "x"', mark), [*ids(value), *ids(mark), *ids("x")])


@pytest.mark.parametrize("text", ["<|call|>p>", "a<|call|>p>", "</<|call|>q</<|call|>p>"])
def test_special_token_comes_only_as_the_whole_mark(text: str) -> None:
    assert not _follows(match('start: until_0 "x"', "</<|call|>p>"), [*ids(text), *ids("x")])


@pytest.mark.parametrize("mark", ["<|call|>", "<call>", "to=f<|call|>"])
def test_speech_ends_with_the_first_mark_and_is_what_may_be_said(mark: str) -> None:
    matcher = match('start: speech_0 "x"', mark, speech="/(?s:.*)/ & ~/(?s:.*)<b>(?s:.*)/")
    said, unsaid = (matcher.deep_copy() for _ in range(2))

    assert _follows(said, [*ids("some <\n"), *ids(mark), *ids("x")])
    assert not _follows(unsaid, [*ids("some <b>"), *ids(mark), *ids("x")])


def test_marks_are_numbered_and_need_not_be_used() -> None:
    matcher = match("start: mark_1", "<|call|>", "<b>", "<c>")

    assert _follows(matcher, ids("<b>"))
