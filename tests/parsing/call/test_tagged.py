"""Calls that are tags are read however they are cut, and as far as what they say is plain."""

import itertools
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.parsing.call.tagged import TaggedSyntax
from appliance.parsing.call.tagged_family import GLM47, MINICPM5, MINIMAX_M2, QWEN3_CODER
from appliance.parsing.format import ThoughtFormat
from appliance.parsing.parsed import CallArguments, CallOpened, Text
from appliance.parsing.parser import AnswerParser
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox
from tests.examples import examples
from tests.parsing.answer_reading import Part, fold, read_pieces
from tests.parsing.call.framing import Framing, read_framed
from tests.parsing.call.reported_case import DSML, REPORTED, REPORTED_TOOLS
from tests.parsing.call.tagged_case import CASES
from tests.parsing.call.tagged_writing import TOOLBOX, WRITTEN
from tests.parsing.call.writing import Writing, read_calls, sound

READ = sound("read", path="/srv")
NOW = sound("now")


@pytest.mark.parametrize(("syntax", "text"), WRITTEN.values(), ids=WRITTEN)
def test_call_is_read_as_its_family_writes_it(syntax: TaggedSyntax, text: str) -> None:
    assert read_calls(f"Well.\n{text}\nDone.", syntax, toolbox=TOOLBOX) == [
        ("text", "Well."),
        *READ,
        *NOW,
        ("text", "Done."),
    ]


@pytest.mark.parametrize(("syntax", "text"), WRITTEN.values(), ids=WRITTEN)
def test_call_needs_neither_block_nor_white_space(syntax: TaggedSyntax, text: str) -> None:
    for mark in (*syntax.block, "\n"):
        text = text.replace(mark.strip() or "\n", "")

    assert read_calls(text, syntax, toolbox=TOOLBOX) == [*READ, *NOW]


@pytest.mark.parametrize(("syntax", "text"), WRITTEN.values(), ids=WRITTEN)
def test_call_is_text_without_tools(syntax: TaggedSyntax, text: str) -> None:
    assert fold(read_pieces([text], Writing(calls=(syntax,)), Toolbox())) == [("text", text)]


@pytest.mark.parametrize(("syntax", "text"), WRITTEN.values(), ids=WRITTEN)
def test_call_is_text_if_its_function_is_unknown(syntax: TaggedSyntax, text: str) -> None:
    parts = read_calls(text.replace("read", "Read"), syntax, toolbox=TOOLBOX)

    assert [kind for kind, _ in parts] == ["text", *["call", "arguments", "end"]]


@pytest.mark.parametrize(("syntax", "text"), WRITTEN.values(), ids=WRITTEN)
def test_call_that_is_cut_off_is_broken_once_it_has_begun(syntax: TaggedSyntax, text: str) -> None:
    text = text[: text.index("/srv")]
    for size in range(1, len(text) + 1):
        parts = fold(read_pieces([text[:size]], Writing(calls=(syntax,)), TOOLBOX))

        assert parts == [("text", text[:size])] or parts[0] == ("call", "read")
        assert parts[-1][0] == "text" or parts[-1] == ("end", "broken")
    assert parts == [("call", "read"), ("arguments", '{"path":"'), ("end", "broken")]


@pytest.mark.parametrize(("syntax", "text", "parts"), CASES.values(), ids=CASES)
def test_call_is_repaired_where_it_is_plain(
    syntax: TaggedSyntax, text: str, parts: list[Part]
) -> None:
    assert read_calls(text, syntax, toolbox=TOOLBOX) == parts


@pytest.mark.parametrize(("syntaxes", "text", "parts"), REPORTED.values(), ids=REPORTED)
def test_call_that_was_reported_is_read(
    syntaxes: tuple[CallSyntax, ...], text: str, parts: list[Part]
) -> None:
    assert read_calls(text, *syntaxes, toolbox=REPORTED_TOOLS) == parts


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("B19", ["get_weather", REPORTED["B19"][1].removeprefix("get_weather")]),
        ("B23", list(REPORTED["B23"][1].partition("</parameter>"))),
        *(
            ("B21", [DSML[at : at + size] for at in range(0, len(DSML), size)])
            for size in (1, 3, 12, 999)
        ),
    ],
)
def test_call_is_read_in_the_pieces_that_were_reported(name: str, pieces: list[str]) -> None:
    syntaxes, _, parts = REPORTED[name]

    assert fold(read_pieces(pieces, Writing(calls=syntaxes), REPORTED_TOOLS)) == parts


def test_call_is_read_in_a_thought_that_was_not_closed() -> None:
    form = Framing(calls=(MINIMAX_M2,), thought_marks=ThoughtFormat("<think>", "</think>"))

    assert read_framed(
        'Hm.\n<invoke name="read">\n<parameter name="path">/srv</parameter>\n</invoke>',
        form,
        begun="<think>",
        toolbox=TOOLBOX,
    ) == [("thought", "Hm."), *READ]


def test_call_is_certain_once_its_arguments_begin() -> None:
    parser = AnswerParser(Writing(calls=(GLM47,)), TOOLBOX)

    held = parser.feed("<tool_call>read<arg_key")
    certain = [
        parser.feed(text) for text in (">", "path</arg_key><arg_value>", "a b", "</arg_value>")
    ]

    assert held == []
    assert certain == [
        [CallOpened("read")],
        [CallArguments('{"path":"')],
        [CallArguments("a b")],
        [],
    ]


MARKS = [
    *("<tool_call>", "</tool_call>", "<function=", "read", "say", "now", ">", "\n", " ", "a", "<"),
    *("<parameter=", "path", "</parameter>", "</function>", "<arg_key>", "</arg_key>", "text", "&"),
    *("<arg_value>", "</arg_value>", '<function name="', '">', '<param name="', "</param>", "&lt;"),
    *("<![CDATA[", "]]>", '<invoke name="', '<parameter name="', "</invoke>", "null", "No", "é"),
]
GARBAGE = st.lists(st.sampled_from(MARKS)).map("".join)
SOUP = Writing(calls=(QWEN3_CODER, GLM47, MINICPM5, MINIMAX_M2))


@given(GARBAGE, st.lists(st.integers(0, 200), max_size=4))
@settings(max_examples=examples(60), deadline=None)
def test_reading_does_not_depend_on_cuts(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]

    whole = fold(read_pieces([text], SOUP, TOOLBOX))

    assert fold(read_pieces(pieces, SOUP, TOOLBOX)) == whole
    assert fold(read_pieces(list(text), SOUP, TOOLBOX)) == whole


@given(GARBAGE)
@settings(max_examples=examples(60), deadline=None)
def test_sound_calls_are_json_and_no_other_text_is_lost(text: str) -> None:
    parts = fold(read_pieces([text], SOUP, TOOLBOX))

    for (kind, arguments), (end, word) in itertools.pairwise(parts):
        if kind == "arguments" and (end, word) == ("end", "sound"):
            assert isinstance(json.loads(arguments), dict)
    if not any(kind == "call" for kind, _ in parts):
        assert "".join(said for _, said in parts) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "<" * 25_000,
        "<tool_call>" * 2_000,
        "<function=read><parameter=path>" + "</parameter>" * 2_000,
        "<function=read><parameter=path>" + "</parameter>\n" * 2_000,
        "<function=read><parameter=path>" + "x<" * 12_000,
        "<function=set><parameter=n>" + "1\n" * 12_000,
        "<function=read>" + " " * 25_000,
        '<function name="read"><param name="path">' + "&" * 25_000,
        "now" * 8_000,
    ],
    ids=range(9),
)
def test_reading_character_by_character_takes_linear_time(text: str) -> None:
    start = time.process_time()

    parts = read_pieces(text, SOUP, TOOLBOX)

    assert time.process_time() - start < 2
    assert sum(len(part.text) for part in parts if isinstance(part, Text | CallArguments)) > 0
