"""Calls that are a name and an object are read however they are cut, and bound as written."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.request import Tool
from appliance.parsing.call.named import NamedSyntax
from appliance.parsing.call.named_family import (
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    FUNCTION,
    FUNCTIONARY,
    KIMI_K2,
    KIMI_K3_OBJECT,
    MISTRAL,
    MISTRAL_ID,
    SOLAR,
    SPOKEN,
)
from appliance.parsing.call.spelling import Id
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.parsed import CallOpened, Text
from appliance.parsing.toolbox import Toolbox
from tests.examples import examples
from tests.parsing.answer_reading import Part, fold, read_pieces
from tests.parsing.call.framing import Framing, read_framed
from tests.parsing.call.writing import TOOLBOX, Writing, read_calls, sound
from tests.parsing.grammar.trial import judge, random_text

NOW = sound("now")
SET = [("call", "set"), ("arguments", '{"n": 1}'), ("end", "sound")]
LONG = "x" * 80

WRITTEN: dict[str, tuple[NamedSyntax, str]] = {
    "mistral": (MISTRAL, '[TOOL_CALLS]set[ARGS]{"n": 1}[TOOL_CALLS]now[ARGS]{}'),
    "mistral with ids": (
        MISTRAL_ID,
        '[TOOL_CALLS]set[CALL_ID]aB3456789[ARGS]{"n": 1}[TOOL_CALLS]now[CALL_ID]aB3456780[ARGS]{}',
    ),
    "deepseek v3": (
        DEEPSEEK_V3,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>set\n```json\n"
        '{"n": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n'
        "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    "deepseek v3.1": (
        DEEPSEEK_V31,
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>set<｜tool▁sep｜>{"n": 1}<｜tool▁call▁end｜>'
        "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    "kimi k2": (
        KIMI_K2,
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.set:0<|tool_call_argument_begin|>"
        '{"n": 1}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}'
        "<|tool_call_end|><|tool_calls_section_end|>",
    ),
    "kimi k3": (
        KIMI_K3_OBJECT,
        '<|open|>tools<|sep|><|open|>call tool="set" index="1"<|sep|><|open|>json type="object"'
        '<|sep|>{"n": 1}<|close|>json<|sep|><|close|>call<|sep|><|open|>call tool="now" index="2"'
        '<|sep|><|open|>json type="object"<|sep|>{}<|close|>json<|sep|><|close|>call<|sep|>'
        "<|close|>tools<|sep|>",
    ),
    "solar": (
        SOLAR,
        "<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>set<|tool_call:args|>"
        '{"n": 1}<|tool_call:end|><|tool_call:begin|>a1b2c3d4e6<|tool_call:name|>now'
        "<|tool_call:args|>{}<|tool_call:end|><|calls|>",
    ),
    "functionary 3.1": (FUNCTION, '<function=set>{"n": 1}</function><function=now>{}</function>'),
    "spoken": (SPOKEN, '[Calling tool: set({"n": 1})][Calling tool: now({})]'),
}

CALLS = [
    (MISTRAL, 'now[ARGS]{}[TOOL_CALLS]set[ARGS]{"n": 1} ', NOW + SET),
    (MISTRAL, "[TOOL_CALLS] now {}\n", NOW),
    (MISTRAL_ID, '[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]set{"n": 1}', NOW + SET),
    (MISTRAL_ID, "now[CALL_ID]123456789[ARGS]{}", NOW),
    (MISTRAL, r'[TOOL_CALLS]set[ARGS]"{\"n\": 1}" ', SET),
    (MISTRAL, r'[TOOL_CALLS]set[ARGS]"{\"n\": 1}', SET),
    (MISTRAL, r'[TOOL_CALLS]set[ARGS]"{\"n\": 1} so', [*SET, ("text", "so")]),
    (MISTRAL, '[TOOL_CALLS]set[ARGS]{"n": "1"}', [SET[0], ("arguments", '{"n": 1}'), SET[2]]),
    (MISTRAL, "Well:\n[TOOL_CALLS]now[ARGS]{}\nso", [("text", "Well:"), *NOW, ("text", "so")]),
    (DEEPSEEK_V3, "<｜tool▁call▁begin｜>now\n{}<｜tool▁call▁end｜>", NOW),
    (DEEPSEEK_V3, "<｜tool▁calls▁begin｜>now\n```json\n{}\n``", NOW),
    (DEEPSEEK_V3, "<｜tool▁call▁begin｜>now```json\n```<｜tool▁call▁end｜>", NOW),
    (KIMI_K2, "<|tool_call_begin|>now<|tool_call_argument_begin|>{}<|tool_call_end|>", NOW),
    (KIMI_K2, "<|tool_call_begin|>now<|tool_call_argument_begin|><|tool_call_end|>", NOW),
    (KIMI_K2, "functions.now:12<|tool_call_argument_begin|>{}", NOW),
    (KIMI_K2, "<|tool_call_begin|>now:0 {}<|tool_call_end|>\n<|tool_call_end|> ", NOW),
    (SOLAR, "<|tool_call:begin|>now<|tool_call:args|>{}<|tool_call:end|>", NOW),
    (FUNCTION, "<function=now></function>", NOW),
    (FUNCTION, "<function=now>\n{}\n</func", NOW),
    (SPOKEN, "[Calling tool: now()] done", [*NOW, ("text", "done")]),
    (SPOKEN, "[Calling tool: now({})", NOW),
    (MISTRAL, "[TOOL_CALLS]now\n\t[ARGS] {} \n", NOW),
]

NO_CALLS = [
    (MISTRAL, "[TOOL_CALLS]nowhere[ARGS]{}"),
    (MISTRAL, "[TOOL_CALLS]now[ARGS]"),
    (MISTRAL, "[TOOL_CALLS]now[ARGS][1]"),
    (MISTRAL, f"[TOOL_CALLS]now{' ' * 80}{{}}"),
    (MISTRAL, "Say now[ARGS]{}"),
    (KIMI_K2, "<|tool_call_begin|>nowhere:0<|tool_call_argument_begin|>{}"),
    (SOLAR, "<|tool_call:begin|>a-now{}"),
    (SOLAR, f"<|tool_call:begin|>{LONG}<|tool_call:name|>now{{}}"),
    (DEEPSEEK_V3, "<｜tool▁calls▁begin｜> is a mark"),
    (FUNCTION, "<function=now>\n<parameter=a>"),
    (FUNCTION, "<function=now"),
    (SPOKEN, "let a = snake["),
    (SPOKEN, "[Calling tool: rm({})]"),
]

BROKEN = [
    (MISTRAL, '[TOOL_CALLS]set[ARGS]{"n": [1}', [("arguments", '{"n": [1}')]),
    (MISTRAL, '[TOOL_CALLS]set[ARGS]{"n": ', [("arguments", '{"n": ')]),
    (MISTRAL, r'[TOOL_CALLS]set[ARGS]"{\"n\": ', [("arguments", '{"n": ')]),
    (FUNCTION, '<function=set>{"n": </function>', [("arguments", '{"n": ')]),
]


@pytest.mark.parametrize("name", WRITTEN)
def test_calls_as_the_family_writes_them_are_read(name: str) -> None:
    syntax, text = WRITTEN[name]

    assert read_calls(text, syntax) == SET + NOW
    assert read_calls(f"So:\n{text}", syntax) == [("text", "So:"), *SET, *NOW]


@pytest.mark.parametrize(("syntax", "text", "parts"), CALLS)
def test_calls_of_which_something_is_missing_are_read(
    syntax: NamedSyntax, text: str, parts: list[Part]
) -> None:
    assert read_calls(text, syntax) == parts


@pytest.mark.parametrize(("syntax", "text"), NO_CALLS)
def test_what_is_no_call_is_text(syntax: NamedSyntax, text: str) -> None:
    assert read_calls(text, syntax) == [("text", text)]


@pytest.mark.parametrize(("syntax", "text", "arguments"), BROKEN)
def test_arguments_that_are_no_object_make_a_broken_call(
    syntax: NamedSyntax, text: str, arguments: list[Part]
) -> None:
    assert read_calls(text, syntax) == [("call", "set"), *arguments, ("end", "broken")]


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        (
            ["[TOOL_CALLS]", "find", "[ARGS]", '{"file_path"', ': "/tmp/a"}'],
            '{"file_path": "/tmp/a"}',
        ),
        (["[TOOL_CALLS]find[AR", 'GS]{"', 'file_path":1}'], '{"file_path":1}'),
    ],
)
def test_header_that_is_split_is_no_part_of_the_arguments(
    pieces: list[str], arguments: str
) -> None:
    parts = fold(read_pieces(pieces, Writing(calls=(MISTRAL,)), TOOLBOX))

    assert parts == [("call", "find"), ("arguments", arguments), ("end", "sound")]


def test_spoken_call_that_is_split_is_read() -> None:
    pieces = ["[Call", "ing tool: fi", 'nd({"city":"x"})]']

    parts = fold(read_pieces(pieces, Writing(calls=(SPOKEN,)), TOOLBOX))

    assert parts == sound("find", city="x")


ODD = Toolbox([Tool("look"), Tool("look at it"), Tool("look:all"), Tool("functions")])


@pytest.mark.parametrize("name", ["look", "look at it", "look:all", "functions"])
@pytest.mark.parametrize("syntax", [KIMI_K2, DEEPSEEK_V3, MISTRAL_ID, SOLAR, FUNCTION])
def test_names_may_be_parts_of_others_and_hold_any_characters(
    name: str, syntax: NamedSyntax
) -> None:
    text = f"{syntax.opening}{''.join(part for part in syntax.before if not isinstance(part, Id))}"
    text += f'{name}{syntax.between[-1]}{{"a": 1}}{syntax.after}{syntax.closing}'

    parts = read_calls(text, syntax, toolbox=ODD)

    assert parts == [("call", name), ("arguments", '{"a": 1}'), ("end", "sound")]


def test_name_that_goes_on_is_another() -> None:
    for name in ("looks", "look at", "look:al", "a.look", "look-up"):
        text = f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{{}}"

        assert read_calls(text, KIMI_K2, toolbox=ODD) == [("text", text)]


def test_another_way_of_writing_is_tried_from_the_same_place() -> None:
    text = WRITTEN["mistral with ids"][1]

    assert read_calls(text, MISTRAL, MISTRAL_ID) == SET + NOW
    assert read_calls(WRITTEN["deepseek v3.1"][1], DEEPSEEK_V3, DEEPSEEK_V31) == SET + NOW


FUNCTIONARY_FORM = Framing(calls=(FUNCTIONARY,))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('all\nSo:\n>>>set\n{"n": 1}>>>now\n{}', [("text", "So:"), *SET, *NOW]),
        ("now\n{}>>>all\nThat is it.", [*NOW, ("text", "That is it.")]),
        ("all\n>>> print(1)", [("text", ">>> print(1)")]),
        ("nowhere\n{}", [("text", "nowhere\n{}")]),
        ("all", [("text", "all")]),
        ("all\n", []),
    ],
)
def test_all_that_functionary_says_has_a_recipient(text: str, parts: list[Part]) -> None:
    assert read_framed(text, FUNCTIONARY_FORM, begun=">>>") == parts


def test_text_to_the_user_is_told_without_any_tools() -> None:
    pieces = read_pieces(["all\n", "Hi"], FUNCTIONARY_FORM, Toolbox(), begun=">>>")

    assert pieces == [Text("Hi", 4)]


@pytest.mark.parametrize("name", WRITTEN)
def test_calls_as_the_family_writes_them_are_what_the_grammar_allows(name: str) -> None:
    syntax, text = WRITTEN[name]
    rules = Rules()
    grammar = rules.build(syntax.grammar(rules, TOOLBOX, is_single=False))

    assert judge(grammar, text) == "complete"
    assert judge(grammar, text.replace("now", "new")) == "refused"
    assert judge(grammar, text.replace("1", '"x"', 1)) == "refused"


@pytest.mark.parametrize("name", WRITTEN)
def test_only_one_call_is_allowed_where_that_is_asked_for(name: str) -> None:
    syntax, text = WRITTEN[name]
    rules = Rules()
    grammar = rules.build(syntax.grammar(rules, TOOLBOX, is_single=True))

    assert judge(grammar, text) == "refused"


def test_functionary_goes_on_behind_the_mark_that_the_prompt_ends_with() -> None:
    rules = Rules()
    grammar = rules.build(FUNCTIONARY.grammar(rules, TOOLBOX, is_single=False))

    assert judge(grammar, 'set\n{"n": 1}>>>now\n{}') == "complete"


def test_calls_may_come_behind_what_ends_a_thought() -> None:
    rules = Rules()
    grammar = rules.build(SOLAR.grammar(rules, TOOLBOX, is_single=False))

    assert judge(grammar, f"<|begin|>assistant{WRITTEN['solar'][1]}") == "complete"


@pytest.mark.parametrize("name", WRITTEN)
def test_what_the_grammar_allows_is_read_as_sound_calls(name: str) -> None:
    syntax, rules = WRITTEN[name][0], Rules()
    toolbox = Toolbox([Tool("now"), Tool("now_or_never", parameters={"type": "object"})])
    grammar = rules.build(syntax.grammar(rules, toolbox, is_single=False))

    texts = [text for seed in range(4) if (text := random_text(grammar, seed, most_bytes=600))]

    assert texts
    for text in texts:
        calls = text.removeprefix("".join(syntax.resumption))
        parts = fold(read_pieces([calls], Writing(calls=(syntax,)), toolbox))
        assert {kind for kind, _ in parts} == {"call", "arguments", "end"}
        assert ("end", "broken") not in parts


MORSELS = st.sampled_from(
    [
        *(mark for syntax, _ in WRITTEN.values() for mark in syntax.openings(TOOLBOX)),
        *(part for syntax, _ in WRITTEN.values() for part in (*syntax.before, *syntax.between)),
        *(mark for syntax, _ in WRITTEN.values() for mark in (*syntax.closings, syntax.after)),
        *("now", "set", "nowhere", "{", "}", '"', "\\", "{}", '{"n": 1}', '{"n": "', " ", "\n"),
        *(">>>", "all\n", "[ARGS]", "a", "<", "[", "`", ":", "0", ")", LONG),
    ]
)
RAWS = st.lists(MORSELS, max_size=20).map("".join)
FORMS = [Writing(calls=(syntax,)) for syntax, _ in WRITTEN.values()]


@pytest.mark.parametrize("form", [*FORMS, FUNCTIONARY_FORM], ids=[*WRITTEN, "functionary"])
@settings(max_examples=examples(30), deadline=None)
@given(raw=RAWS, cuts=st.sets(st.integers(0, 300), max_size=8))
def test_parts_do_not_depend_on_the_pieces(form: Writing, raw: str, cuts: set[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    pieces = [raw[start:end] for start, end in itertools.pairwise(edges)]

    whole = read_pieces([raw], form, TOOLBOX)

    assert fold(read_pieces(pieces, form, TOOLBOX)) == fold(whole)
    assert fold(read_pieces(list(raw), form, TOOLBOX)) == fold(whole)
    if CallOpened not in map(type, whole):
        text = "".join(piece.text for piece in whole if isinstance(piece, Text))
        assert text == raw or form is FUNCTIONARY_FORM


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
def test_time_is_linear_in_the_text(name: str) -> None:
    syntax = WRITTEN[name][0]
    opening = syntax.openings(TOOLBOX)[0]
    raws = [
        opening * 200,
        opening + " " * 4_000,
        (opening + "now") * 200,
        f'{opening}now{"".join(syntax.between)}{{"a": "' + "<" * 4_000,
    ]
    form = Writing(calls=(syntax,))
    began = time.process_time()

    for raw in raws:
        read_pieces(list(raw), form, TOOLBOX)

    assert time.process_time() - began < 5
