"""Calls whose arguments are elements are read however they are cut, and bound as written."""

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.request import Tool
from appliance.errors import InvalidRequest
from appliance.parsing.call.tagged_family import MINIMAX_M3
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.grammar.schema import enforceable
from appliance.parsing.parsed import CallArguments
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import Part, fold, read_pieces
from tests.parsing.call.writing import Writing, read_calls, sound
from tests.parsing.grammar.trial import judge, random_text

SPACE = "]<]minimax[>["
STRING = {"type": "string"}
PARAMETERS: dict[str, Any] = {
    "properties": {
        "s": STRING,
        "n": {"type": "integer"},
        "opts": {"type": "array"},
        "o": {"type": "object", "properties": {"item": STRING, "k": {"type": "boolean"}}},
        "both": {"type": ["array", "object"]},
        "maybe": {"type": ["object", "null"]},
        "x": {},
    }
}
TOOLBOX = Toolbox([Tool("q", parameters=PARAMETERS), Tool("now")])
FORM = Writing(calls=(MINIMAX_M3,))
BROKEN = ("end", "broken")


def spaced(text: str) -> str:
    """Return a text with the mark before each tag, which is written ~ here."""
    return text.replace("~", SPACE)


def q(arguments: str) -> str:
    return spaced(f'~<tool_call>\n~<invoke name="q">{arguments}~</invoke>\n~</tool_call>')


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "line ends between elements": (
        "\n~<opts>~<item>a~</item>~<item>b~</item>~</opts>\n",
        {"opts": ["a", "b"]},
    ),
    "text as it stands": ("~<s> a <b>\n</s> ~</s>", {"s": " a <b>\n</s> "}),
    "a tag in a text": ("~<s>a~</t> ~<n>b~</s>", {"s": "a]<]minimax[>[</t> ]<]minimax[>[<n>b"}),
    "a closing tag in a text": ("~<s>a~</s>b~</s>", {"s": "a]<]minimax[>[</s>b"}),
    "types": (
        "~<n>5~</n>~<o>~<item>5~</item>~<k>true~</k>~</o>",
        {"n": 5, "o": {"item": "5", "k": True}},
    ),
    "a wrong type": ("~<n>five~</n>", {"n": "five"}),
    "nothing in them": (
        "~<s>~</s>~<opts>~</opts>~<o>~</o>~<x>~</x>~<maybe> ~</maybe>",
        {"s": "", "opts": [], "o": {}, "x": "", "maybe": {}},
    ),
    "a list of lists": (
        "~<opts>~<item>~<item>1~</item>~</item>~<item>~</item>~</opts>",
        {"opts": [[1], ""]},
    ),
    "what is known from what is in it": (
        "~<both>~<item>1~</item>~</both>~<x>~<a>~<item>~<a>b~</a>~</item>~</a>~</x>",
        {"both": [1], "x": {"a": [{"a": "b"}]}},
    ),
    "an element of its own name": (
        "~<x>~<x>~<x>1~</x>~<y>2~</y>~</x>~<z> ~</z>~</x>",
        {"x": {"x": {"x": 1, "y": 2}, "z": " "}},
    ),
    "JSON": ('~<opts>["a"]~</opts>~<x>{"a": 1}~</x>', {"opts": ["a"], "x": {"a": 1}}),
    "half a mark": ("~<x>]<]mini~</x>", {"x": "]<]mini"}),
}


@pytest.mark.parametrize(("text", "arguments"), CASES.values(), ids=CASES)
def test_elements_become_the_values_that_their_schema_says(
    text: str, arguments: dict[str, Any]
) -> None:
    (call, (_, found), end) = read_calls(q(text), MINIMAX_M3, toolbox=TOOLBOX)

    assert (call, end) == (("call", "q"), ("end", "sound"))
    assert json.loads(found) == arguments


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('~<tool_call>\n~<invoke name="now">~</invoke>\n~</tool_call>', sound("now")),
        ('~<invoke name="now">~</invoke>~<invoke name="now">~</invoke>', sound("now") * 2),
        ('~<tool_call>\n~<invoke name="now">\n~</tool_call>', sound("now")),
        (
            '~<invoke name="q">~<s>a~</s>\n~</tool_call>\nDone.',
            [*sound("q", s="a"), ("text", "Done.")],
        ),
        ('~<invoke name="now">~<', [("text", '~<invoke name="now">~<')]),
        ('~<invoke name="no">~</invoke>', [("text", '~<invoke name="no">~</invoke>')]),
    ],
    ids=range(6),
)
def test_call_without_arguments_block_or_end_is_read(text: str, parts: list[Part]) -> None:
    parts = [(kind, spaced(said)) for kind, said in parts]

    assert read_calls(spaced(text), MINIMAX_M3, toolbox=TOOLBOX) == parts


@pytest.mark.parametrize(
    ("text", "given", "rest"),
    [
        ("~<s>a~</s>~<s>b~</s>", '{"s":"a"', "~<s>b~</s>~</invoke>"),
        ("~<s>a~</s> and", '{"s":"a', ""),
        (
            "~<opts>~<item>a~</item>~<k>b~</k>~</opts>",
            '{"opts":["a"',
            "~<k>b~</k>~</opts>~</invoke>",
        ),
        ("~<o>~<k>true~</k>~</s>~</o>", '{"o":{"k":true', "~</s>~</o>~</invoke>"),
        ("and ~<s>a~</s>", "", None),
        ("~<>a~</>", "{", "~<>a~</>~</invoke>"),
    ],
    ids=range(6),
)
def test_call_is_broken_where_it_is_not_plain(text: str, given: str, rest: str | None) -> None:
    parts = read_calls(spaced(f'~<invoke name="q">{text}~</invoke>'), MINIMAX_M3, toolbox=TOOLBOX)

    if rest is None:
        assert [kind for kind, _ in parts] == ["text"]
        return
    assert parts[0] == ("call", "q")
    assert BROKEN in parts
    assert parts[1][1].startswith(given)
    assert parts[-1] == (("text", spaced(rest)) if rest else BROKEN)


@pytest.mark.parametrize(
    ("text", "given", "rest"),
    [
        ("~<x>" * 101, '{"x":' * 100 + "{", "~<x>"),
        (f"~<{'x' * 500}>", "{", f"~<{'x' * 500}>"),
    ],
    ids=["depth", "name"],
)
def test_call_is_broken_where_it_goes_too_far(text: str, given: str, rest: str) -> None:
    text = spaced(f'~<invoke name="q">{text}')

    parts = fold(read_pieces([text], FORM, TOOLBOX))

    assert parts == [("call", "q"), ("arguments", given), BROKEN, ("text", spaced(rest))]
    assert fold(read_pieces(list(text), FORM, TOOLBOX)) == parts


def test_item_of_its_place_has_its_schema() -> None:
    pair = {"type": "array", "prefixItems": [STRING, {"type": "integer"}]}
    toolbox = Toolbox([Tool("q", parameters={"properties": {"pair": pair}})])
    text = q("~<pair>~<item>1~</item>~<item>2~</item>~</pair>")

    assert read_calls(text, MINIMAX_M3, toolbox=toolbox) == sound("q", pair=["1", 2])


MARKS = ["~<", "~</", "s>", "x>", "opts>", "item>", ">", "a", "\n", "q", '~<invoke name="q">', "~"]
ELEMENTS = ["~<s>", "~</s>", "~<x>", "~</x>", "~<item>", "~</item>", "~</invoke>", "~</tool_call>"]
GARBAGE = st.lists(st.sampled_from([*MARKS, *ELEMENTS])).map("".join).map(spaced)


@given(GARBAGE, st.lists(st.integers(0, 400), max_size=4))
@settings(max_examples=50, deadline=None)
def test_reading_does_not_depend_on_cuts(text: str, cuts: list[int]) -> None:
    text = spaced('~<invoke name="q">~<') + text
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]

    whole = fold(read_pieces([text], FORM, TOOLBOX))

    assert fold(read_pieces(pieces, FORM, TOOLBOX)) == whole
    for (kind, arguments), following in itertools.pairwise(whole):
        if kind == "arguments" and following == ("end", "sound"):
            assert isinstance(json.loads(arguments), dict)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [SPACE * 2_000, "]" * 25_000, " " * 25_000, "~</s>" * 1_500, "~<item>a~</item>" * 800],
    ids=range(5),
)
def test_reading_character_by_character_takes_linear_time(text: str) -> None:
    text = spaced(f'~<invoke name="q">~<opts>~<item>{text}')
    start = time.process_time()

    pieces = read_pieces(text, FORM, TOOLBOX)

    assert time.process_time() - start < 2
    assert any(isinstance(piece, CallArguments) for piece in pieces)


BOUND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "kids": {"type": "array", "items": {"$ref": "#"}, "minItems": 1, "maxItems": 2},
        "any": {"type": "object"},
        "size": {"enum": ["big", 5]},
        "what": {"anyOf": [{"type": "array", "items": {"type": "boolean"}}, {"type": "null"}]},
    },
    "required": ["name"],
}


def grammar_of(parameters: dict[str, Any], *, is_single: bool = False) -> Any:  # noqa: ANN401
    rules = Rules()
    schema = enforceable(parameters, param="tools", is_strict=True)
    tools = Toolbox([Tool("q", parameters=schema, strict=True), Tool("now")])
    return rules.build(MINIMAX_M3.grammar(rules, tools, is_single=is_single))


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        ("~<name>abc~</name>", "complete"),
        ("~<name>abcd~</name>", "refused"),
        ("~<size>5~</size>", "refused"),
        ("~<name>a~</name>~<kids>~<item>~<name>b~</name>~</item>~</kids>", "complete"),
        ("~<name>a~</name>~<kids>~</kids>", "refused"),
        ('~<name>a~</name>~<any>{"a":1}~</any>~<size>big~</size>', "complete"),
        ("~<name>a~</name>~<what>~<item>true~</item>~</what>", "complete"),
        ("~<name>a~</name>~<what>null~</what>", "complete"),
        ("~<name>a~</name>~<what>1~</what>", "refused"),
    ],
)
def test_grammar_allows_what_the_schema_does(arguments: str, verdict: str) -> None:
    assert judge(grammar_of(BOUND), q(arguments)) == verdict


def test_grammar_of_one_call_allows_no_second() -> None:
    call = spaced('~<invoke name="now">~</invoke>\n')
    one, two = (spaced(f"~<tool_call>\n{call * count}~</tool_call>") for count in (1, 2))

    assert [judge(grammar_of(BOUND), text) for text in (one, two)] == ["complete"] * 2
    grammar = grammar_of(BOUND, is_single=True)
    assert [judge(grammar, text) for text in (one, two)] == ["complete", "refused"]


def test_texts_of_the_grammar_are_read_as_sound_calls() -> None:
    texts = [random_text(grammar_of(BOUND), seed, most_bytes=1000) for seed in range(6)]

    for text in filter(None, texts):
        parts = fold(read_pieces([text], FORM, Toolbox([Tool("q", parameters=BOUND), Tool("now")])))
        assert {end for kind, end in parts if kind == "end"} == {"sound"}


def test_strict_function_is_refused_what_no_grammar_says() -> None:
    schema = {"anyOf": [{"type": "object", "properties": {"a": STRING}}, {"type": "null"}]}
    tool = Tool("q", parameters=schema, strict=True)

    with pytest.raises(InvalidRequest, match="anyOf"):
        MINIMAX_M3.grammar(Rules(), Toolbox([tool]), is_single=True)
