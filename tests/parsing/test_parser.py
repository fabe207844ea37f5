"""Thoughts, calls and text are told apart, whatever the pieces are."""

import itertools
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.parsing.format import CALLS as FORMATS
from appliance.parsing.format import AnswerFormat
from appliance.parsing.parsed import CallArguments, CallOpened, Parsed, Text, Thought
from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import (
    BOTH,
    TOOLBOX,
    Part,
    fold,
    part_of,
    read,
    read_at,
    read_pieces,
    splits,
)


def call(arguments: str, name: str = "now") -> list[Part]:
    return [("call", name), ("arguments", arguments), ("end", "sound")]


def text(*texts: str) -> list[Part]:
    return [("text", each) for each in texts]


NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
EMPTY = call("{}")
LONG = "x" * 70

THOUGHTS = {
    "": [],
    "plain": text("plain"),
    "  hi \n": text("  hi \n"),
    "<think>\nplan\n</think>\n\nanswer": [("thought", "plan"), *text("answer")],
    "\n <think>a</think> b": [("thought", "a"), *text(" b")],
    "<think>never closed\n": [("thought", "never closed\n")],
    "<think>half closed</thi": [("thought", "half closed</thi")],
    "<think></think>\r\nanswer": text("answer"),
    "<think>\n\n</think>": [],
    "<think>\n<think>twice</think>": [("thought", "twice")],
    "<think>a <think> b</think>": [("thought", "a <think> b")],
    "<think>a\n\nb</think>c": [("thought", "a\n\nb"), *text("c")],
    "a\n<think>b</think>c": [*text("a\n"), ("thought", "b"), *text("c")],
    "<think>a</think>\n<think>b</think>c": [("thought", "ab"), *text("c")],
    "<think>t</think>Write `<think>` before and `</think>` after.": [
        ("thought", "t"),
        *text("Write `<think>` before and `</think>` after."),
    ],
    "no opening</think>": text("no opening</think>"),
    "1 < 2 <thin": text("1 < 2 <thin"),
    "<think>a<tool_call>b</think>": [("thought", "a<tool_call>b")],
    f"<think>{NOW}</think>ok": [("thought", NOW), *text("ok")],
    "é😀<think>": text("é😀<think>"),
}

CALLS = {
    f"{NOW}\n<think>b</think>c": [*EMPTY, ("thought", "b"), *text("c")],
    f"<think>a</think>{NOW}b": [("thought", "a"), *EMPTY, *text("b")],
    '<tool_call>{"name":"now","arguments":{"a":"<think>"}}</tool_call>': call('{"a":"<think>"}'),
}


@pytest.mark.parametrize("raw", [*THOUGHTS, *CALLS])
def test_answer_is_told_apart_however_it_is_split(raw: str) -> None:
    expected = (THOUGHTS | CALLS)[raw]

    assert read(raw) == expected
    for texts in splits(raw):
        assert fold(read_pieces(texts)) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("plan\n</think>\n\nanswer", [("thought", "plan"), *text("answer")]),
        ("\n<think>\nplan</think>answer", [("thought", "plan"), *text("answer")]),
        ("step 1 … step 2", [("thought", "step 1 … step 2")]),
        ("", []),
    ],
)
def test_thought_that_the_prompt_began_goes_on(raw: str, expected: list[Part]) -> None:
    for texts in splits(raw):
        assert fold(read_pieces(texts, begun="<think>")) == expected


@pytest.mark.parametrize(
    ("form", "toolbox"),
    [
        (AnswerFormat("none", "none"), TOOLBOX),
        (AnswerFormat("none", "hermes"), Toolbox()),
    ],
)
def test_nothing_is_told_apart_without_a_format_or_tools(
    form: AnswerFormat, toolbox: Toolbox
) -> None:
    raw = f"<think>a</think> {NOW}\n"

    assert fold(read_pieces([raw], form, toolbox)) == text(raw)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "none"])
def test_mark_of_calls_that_the_prompt_ends_with_means_nothing_without_tools(name: str) -> None:
    form = AnswerFormat("none", name)
    begun = {form.begun(mark) for each in FORMATS[name] for mark in each.openings(TOOLBOX)}

    for mark in begun:
        for texts in splits("so it is"):
            pieces = read_pieces(texts, form, Toolbox(), begun=mark)
            assert fold(pieces) == text("so it is")


MARKS = re.compile(r"(?:\s|</?think>|</tool_call>)*")
MORSELS = st.sampled_from(
    [
        *("<think>", "</think>", "<tool_call>", "</tool_call>", "<", "<t", "</", ">", NOW),
        *('{"name": "now", ', '"arguments": ', '{"a": ', '"', "{", "}", "}}", "[", "]", "\\"),
        *('{"name":"get_weather","arguments":{"city":"Oslo', "{}", r"\"", r"\u00e9", r"\ud83d"),
        *("\n", " ", "\r\n", "\t", "a", "é", "😀", "null", ",", ":", "</tool_call>\n", LONG),
    ]
)
RAWS = st.lists(MORSELS, max_size=24).map("".join)
CUTS = st.lists(st.integers(0, 400), max_size=12)


@settings(deadline=None)
@given(RAWS, CUTS, st.booleans())
def test_parts_do_not_depend_on_the_pieces(raw: str, cuts: list[int], is_in_thought: bool) -> None:
    whole = read(raw, begun="<think>" if is_in_thought else "")

    assert read_at(raw, cuts, begun="<think>" if is_in_thought else "") == whole
    assert read_at(raw, range(len(raw)), begun="<think>" if is_in_thought else "") == whole


@settings(deadline=None)
@given(RAWS, st.booleans())
def test_text_that_passes_is_what_it_would_be_if_fed(raw: str, is_in_thought: bool) -> None:
    parser = AnswerParser(BOTH, TOOLBOX, begun="<think>" if is_in_thought else "")

    pieces = [
        piece
        for at, letter in enumerate(raw)
        for piece in ([Text(letter, at)] if parser.passes_text(letter) else parser.feed(letter))
    ]

    assert fold(pieces + parser.end()) == read(raw, begun="<think>" if is_in_thought else "")


@settings(deadline=None)
@given(RAWS, RAWS)
def test_what_follows_does_not_depend_on_the_pieces_before(raw: str, rest: str) -> None:
    whole, single = (AnswerParser(BOTH, TOOLBOX, begun="") for _ in range(2))
    before = [fold(whole.feed(raw)), fold(p for letter in raw for p in single.feed(letter))]

    after = [fold([*parser.feed(rest), *parser.end()]) for parser in (whole, single)]

    assert before[0] == before[1]
    assert after[0] == after[1]


@settings(deadline=None)
@given(RAWS, st.booleans())
def test_text_and_thoughts_are_the_raw_text_at_their_place(raw: str, is_in_thought: bool) -> None:
    pieces = read_pieces(list(raw), begun="<think>" if is_in_thought else "")

    placed = [piece for piece in pieces if isinstance(piece, Text | Thought)]
    assert all(raw[piece.at :].startswith(piece.text) for piece in placed)
    assert all(
        piece.at + len(piece.text) <= after.at for piece, after in itertools.pairwise(placed)
    )
    assert all(piece.text for piece in placed)


@pytest.mark.parametrize(
    ("raw", "pieces"),
    [
        ("a \n<|END_TEXT|>b", [Text("a", 0), Text(" \n", 1), Text("b", 15)]),
        (" <|START_TEXT|> b", [Text(" ", 0), Text(" b", 15)]),
        ("a\n<|END_TEXT|><|END_RESPONSE|>", [Text("a", 0), Text("\n", 1)]),
    ],
)
def test_white_space_before_a_dropped_mark_is_where_it_stands(
    raw: str, pieces: list[Parsed]
) -> None:
    form = AnswerFormat("cohere", "cohere")

    for texts in ([raw], list(raw)):
        assert read_pieces(texts, form) == pieces


def test_marks_round_an_answer_are_dropped_only_where_they_are_round_it() -> None:
    form = AnswerFormat("granite", "granite")
    raw = "<think>a</think><response>b</response>"

    for texts in splits(raw):
        assert fold(read_pieces(texts, form)) == [("thought", "a"), *text("b")]
    for texts in splits("b <response>c</response>"):
        assert fold(read_pieces(texts, form)) == text("b <response>c</response>")


@settings(deadline=None)
@given(RAWS, st.booleans())
def test_only_marks_their_white_space_and_calls_are_lost(raw: str, is_in_thought: bool) -> None:
    pieces = read_pieces([raw], begun="<think>" if is_in_thought else "")

    placed = [piece for piece in pieces if isinstance(piece, Text | Thought)]
    starts = [0, *(piece.at + len(piece.text) for piece in placed)]
    ends = [*(piece.at for piece in placed), len(raw)]
    gaps = [raw[start:end] for start, end in zip(starts, ends, strict=True)]
    assert all(MARKS.fullmatch(gap) or '"name"' in gap for gap in gaps)
    if CallOpened not in map(type, pieces):
        assert all(MARKS.fullmatch(gap) for gap in gaps)


@settings(deadline=None)
@given(st.lists(st.sampled_from([NOW, "<think>a</think>", "b\n", "\n"]), max_size=8).map("".join))
def test_marks_that_mean_something_never_leave(raw: str) -> None:
    pieces = read_pieces(list(raw))

    assert not any("<" in part_of(piece)[1] for piece in pieces)


def test_text_flows_at_once_and_only_what_may_be_a_mark_is_held() -> None:
    parser = AnswerParser(BOTH, TOOLBOX, begun="<think>")

    leaving = [fold(parser.feed(each)) for each in ("I th", "ink ", "<", "b>\n", "so</th", "ink>")]

    assert leaving == [
        [("thought", "I th")],
        [("thought", "ink ")],
        [],
        [("thought", "<b>")],
        [("thought", "\nso")],
        [],
    ]


@pytest.mark.parametrize("piece", ["word ", r"\n \" ", "<tool_call>"])
def test_long_arguments_stream_as_they_stand(piece: str) -> None:
    parser = AnswerParser(BOTH, TOOLBOX, begun="")
    parser.feed('<tool_call>{"name": "now", "arguments": {"a": "')

    leaving = [parser.feed(each) for each in (piece, "", piece)]

    assert leaving == [[CallArguments(piece)], [], [CallArguments(piece)]]
    assert fold(parser.feed('"}}')) == [("arguments", '"}'), ("end", "sound")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "raw",
    [
        *("<" * 30_000, "<tool_call>" * 2_000, " " * 20_000, "\n<think>" * 2_000),
        *('<tool_call>{"name":"' * 1_000, "<think>" + "\n" * 20_000, f"{NOW} " * 300),
        '<tool_call>{"name":"now","arguments":{"a":"' + "<" * 20_000,
        '<tool_call>{"name":"now","arguments":' + '{"a":' * 4_000 + "}" * 4_000,
        r'<tool_call>{"name":"now","arguments":"{\"a\":\"' + r"\\" * 10_000,
    ],
    ids=lambda raw: raw[:40].strip(),
)
def test_time_is_linear_in_the_text(raw: str) -> None:
    began = time.process_time()

    assert read(raw) == fold(read_pieces(list(raw)))

    assert time.process_time() - began < 5
