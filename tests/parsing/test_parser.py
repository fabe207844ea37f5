"""Thoughts, calls and text are told apart, whatever the pieces are."""

import itertools
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.parsing.format import AnswerFormat
from appliance.parsing.parsed import CallOpened, Text, Thought
from appliance.parsing.parser import AnswerParser
from tests.parsing.answer_reading import (
    BOTH,
    NAMES,
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


def broken(arguments: str, name: str = "now") -> list[Part]:
    return [("call", name), ("arguments", arguments), ("end", "broken")]


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
    NOW: EMPTY,
    f"Let me see. \n{NOW}\n": [*text("Let me see."), *EMPTY],
    f"{NOW}\n{NOW}": EMPTY + EMPTY,
    f"{NOW}{NOW}after": [*EMPTY, *EMPTY, *text("after")],
    f"{NOW}\n\n</tool_call>\n": EMPTY,
    f"{NOW} and </tool_call>": [*EMPTY, *text("and </tool_call>")],
    f"{NOW}\n<think>b</think>c": [*EMPTY, ("thought", "b"), *text("c")],
    '<tool_call>{"name":"now"}</tool_call>': EMPTY,
    '<tool_call>{"name":"now"}': EMPTY,
    '<tool_call>{"name":"now","arguments":null}</tool_call>': EMPTY,
    '<tool_call>{"name":"now","arguments":""}</tool_call>': EMPTY,
    '<tool_call>{"name":"now","parameters":{"a": 1}}</tool_call>': call('{"a": 1}'),
    '<tool_call>{"arguments":{"a":1.50},"name":"now"}</tool_call>': call('{"a":1.50}'),
    '<tool_call>{"id":1,"name":"now"}</tool_call>': EMPTY,
    '<tool_call>{"name":"n\\u006fw","arguments":{}}</tool_call>': EMPTY,
    '<tool_call>{"name":"now","arguments":{"a":{"b":[{"c":"}]"}]}}}</tool_call>': call(
        '{"a":{"b":[{"c":"}]"}]}}'
    ),
    '<tool_call>{"name":"now","arguments":{"a":"</tool_call> \\" <tool_call>"}}</tool_call>': call(
        '{"a":"</tool_call> \\" <tool_call>"}'
    ),
    '<tool_call>{"name":"now","arguments":{"a":"1\n2\t"}}</tool_call>': call('{"a":"1\\n2\\t"}'),
    '<tool_call>{"name":"now","arguments":{}}': EMPTY,
    '<tool_call>{"name":"now","arguments":{}</tool_call>ok': [*EMPTY, *text("ok")],
    '<tool_call>{"name":"now","arguments":{}}}\n</tool_call>ok': [*EMPTY, *text("ok")],
    '<tool_call>{"name":"now","arguments":{}},"id":"7"}</tool_call>ok': [*EMPTY, *text("ok")],
    f'<tool_call>{{"name":"now","arguments":{{}}}} {LONG}{LONG}': [*EMPTY, *text(LONG + LONG)],
    f'<tool_call>{{"name":"now","arguments":{{}}}} so{NOW}': [*EMPTY, *text("so"), *EMPTY],
    '<tool_call>{"name":"now","arguments":{}} bye </tool': [*EMPTY, *text("bye </tool")],
}

ENCODED = {
    '"{}"': "{}",
    r'"{\"a\": \"b\\n\\\"c\\\"\"}"': r'{"a": "b\n\"c\""}',
    r'"{\"a\":\"\u00e9\ud83d\ude00\\u00e9\"}"': r'{"a":"é😀\u00e9"}',
    r'"{\"a\":\"<\/tool_call>\"} "': '{"a":"</tool_call>"}',
    r'" {\"a\":1}': '{"a":1}',
    r'"{\"a\":1\u007d"': '{"a":1}',
}

BROKEN = {
    '<tool_call>{"name":"now","arguments":{"a":"b': broken('{"a":"b'),
    '<tool_call>{"name":"now","arguments":{"a":"b\\': broken('{"a":"b\\'),
    '<tool_call>{"name":"now","arguments":{"a":1</tool': broken('{"a":1</tool'),
    f'<tool_call>{{"name":"now","arguments":{{"a":1</tool_call>\nso {NOW}': [
        *broken('{"a":1'),
        *text(f"so {NOW}"),
    ],
    '<tool_call>{"name":"now","arguments":{"a":True}}</tool_call>ok': [
        *broken('{"a":True}'),
        *text("ok"),
    ],
    '<tool_call>{"name":"now","arguments":{"a":[1}}</tool_call>ok': [
        *broken('{"a":[1}}'),
        *text("ok"),
    ],
    '<tool_call>{"name":"now","arguments":{<b>}}</tool_call>': broken("{<b>}"),
    r'<tool_call>{"name":"now","arguments":"{\"a\":1"}</tool_call>ok': [
        *broken('{"a":1'),
        *text("ok"),
    ],
    r'<tool_call>{"name":"now","arguments":"{\"a\":\x}"}</tool_call>': broken('{"a":\\x}'),
    r'<tool_call>{"name":"now","arguments":"{\"a\":\u00': broken('{"a":\\u00'),
}

NO_CALLS = [
    "Use <tool_call> and </tool_call> in XML.",
    "```\n<tool_call>\n```",
    '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "now", "arguments": 7}</tool_call>',
    '<tool_call>{"name": "now", "arguments": "soon"}</tool_call>',
    '<tool_call>{"name": "now", "arguments": []}</tool_call>',
    '<tool_call>{"name": "no\\w", "arguments": {}}</tool_call>',
    '<tool_call>{"name": 5}</tool_call>',
    f'<tool_call>{{"name": "now", "what": "{LONG}{LONG}", "arguments": {{}}}}</tool_call>',
    f'<tool_call>{{"arguments": {{"a": "{LONG}{LONG}"}}, "name": "now"}}</tool_call>',
    "<tool_call>now\n<arg_key>a</arg_key></tool_call>",
    "<tool_call>",
    '<tool_call>\n{"na',
    '<tool_call>{"name": "now"',
    f"<tool_call>{' ' * 200}{{",
    '{"name": "now", "arguments": {}}',
    "1 <\n<<tool_call <",
    "🙂" * 40 + "<tool_call>🙂",
]


@pytest.mark.parametrize("raw", [*THOUGHTS, *CALLS, *BROKEN])
def test_answer_is_told_apart_however_it_is_split(raw: str) -> None:
    expected = (THOUGHTS | CALLS | BROKEN)[raw]

    assert read(raw) == expected
    for texts in splits(raw):
        assert fold(read_pieces(texts)) == expected


@pytest.mark.parametrize("encoded", ENCODED)
def test_arguments_encoded_twice_are_decoded_once(encoded: str) -> None:
    raw = f'<tool_call>{{"name":"now","arguments":{encoded}}}</tool_call>ok'
    expected = [*call(ENCODED[encoded]), *text("ok")]

    assert read(raw) == expected
    for texts in splits(raw):
        assert fold(read_pieces(texts)) == expected


@pytest.mark.parametrize("raw", NO_CALLS)
def test_what_is_no_call_is_text(raw: str) -> None:
    for texts in splits(raw):
        assert fold(read_pieces(texts)) == text(raw)


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
        assert fold(read_pieces(texts, is_in_thought=True)) == expected


@pytest.mark.parametrize(
    ("form", "names"),
    [
        (AnswerFormat("none", "none"), NAMES),
        (AnswerFormat("none", "hermes"), frozenset[str]()),
    ],
)
def test_nothing_is_told_apart_without_a_format_or_tools(
    form: AnswerFormat, names: frozenset[str]
) -> None:
    raw = f"<think>a</think> {NOW}\n"

    assert fold(read_pieces([raw], form, names)) == text(raw)


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
    whole = read(raw, is_in_thought=is_in_thought)

    assert read_at(raw, cuts, is_in_thought=is_in_thought) == whole
    assert read_at(raw, range(len(raw)), is_in_thought=is_in_thought) == whole


@settings(deadline=None)
@given(RAWS, st.booleans())
def test_text_that_passes_is_what_it_would_be_if_fed(raw: str, is_in_thought: bool) -> None:
    parser = AnswerParser(BOTH, NAMES, is_in_thought=is_in_thought)

    pieces = [
        piece
        for at, letter in enumerate(raw)
        for piece in ([Text(letter, at)] if parser.passes_text(letter) else parser.feed(letter))
    ]

    assert fold(pieces + parser.end()) == read(raw, is_in_thought=is_in_thought)


@settings(deadline=None)
@given(RAWS, RAWS)
def test_what_follows_does_not_depend_on_the_pieces_before(raw: str, rest: str) -> None:
    whole, single = (AnswerParser(BOTH, NAMES, is_in_thought=False) for _ in range(2))
    before = [fold(whole.feed(raw)), fold(p for letter in raw for p in single.feed(letter))]

    after = [fold([*parser.feed(rest), *parser.end()]) for parser in (whole, single)]

    assert before[0] == before[1]
    assert after[0] == after[1]


@settings(deadline=None)
@given(RAWS, st.booleans())
def test_text_and_thoughts_are_the_raw_text_at_their_place(raw: str, is_in_thought: bool) -> None:
    pieces = read_pieces(list(raw), is_in_thought=is_in_thought)

    placed = [piece for piece in pieces if isinstance(piece, Text | Thought)]
    assert all(raw[piece.at :].startswith(piece.text) for piece in placed)
    assert all(
        piece.at + len(piece.text) <= after.at for piece, after in itertools.pairwise(placed)
    )
    assert all(piece.text for piece in placed)


@settings(deadline=None)
@given(RAWS, st.booleans())
def test_only_marks_their_white_space_and_calls_are_lost(raw: str, is_in_thought: bool) -> None:
    pieces = read_pieces([raw], is_in_thought=is_in_thought)

    placed = [piece for piece in pieces if isinstance(piece, Text | Thought)]
    starts = [0, *(piece.at + len(piece.text) for piece in placed)]
    ends = [*(piece.at for piece in placed), len(raw)]
    gaps = [raw[start:end] for start, end in zip(starts, ends, strict=True)]
    assert all(MARKS.fullmatch(gap) or "<tool_call>" in gap for gap in gaps)
    if CallOpened not in map(type, pieces):
        assert all(MARKS.fullmatch(gap) for gap in gaps)


@settings(deadline=None)
@given(st.lists(st.sampled_from([NOW, "<think>a</think>", "b\n", "\n"]), max_size=8).map("".join))
def test_marks_that_mean_something_never_leave(raw: str) -> None:
    pieces = read_pieces(list(raw))

    assert not any("<" in part_of(piece)[1] for piece in pieces)


def test_text_flows_at_once_and_only_what_may_be_a_mark_is_held() -> None:
    parser = AnswerParser(BOTH, NAMES, is_in_thought=True)

    leaving = [fold(parser.feed(each)) for each in ("I th", "ink ", "<", "b>\n", "so</th", "ink>")]

    assert leaving == [
        [("thought", "I th")],
        [("thought", "ink ")],
        [],
        [("thought", "<b>")],
        [("thought", "\nso")],
        [],
    ]


def test_long_arguments_stream() -> None:
    parser = AnswerParser(BOTH, NAMES, is_in_thought=False)
    parser.feed('<tool_call>{"name": "now", "arguments": {"a": "')

    leaving = [fold(parser.feed("word ")) for _ in range(5)]

    assert leaving == [[("arguments", "word ")]] * 5


@pytest.mark.parametrize(
    "raw",
    [
        *("<" * 100_000, "<tool_call>" * 2_000, " " * 20_000, "\n<think>" * 2_000),
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
