"""In a list of calls what is no call is text in its place, and the calls round it are calls."""

import json

import pytest

from appliance.parsing.call import json_family
from appliance.parsing.call.gemma import GEMMA4
from appliance.parsing.call.json_body import JsonBody
from appliance.parsing.call.pythonic import GEMMA3, LFM2, LLAMA4, OLMO, PYTHONIC
from appliance.parsing.parsed import CallArguments, CallOpened, Text
from appliance.parsing.parser import AnswerParser
from appliance.parsing.syntax import CallSyntax
from tests.parsing.answer_reading import Part, fold, read_pieces
from tests.parsing.call.writing import TOOLBOX, Writing, is_linear

FOUND = '{"name":"find","arguments":{"city":"B"}}'
FIND: list[Part] = [("call", "find"), ("arguments", '{"city":"B"}'), ("end", "sound")]
NOW: list[Part] = [("call", "now"), ("arguments", "{}"), ("end", "sound")]
JSON = {name: it for name, it in vars(json_family).items() if isinstance(it, JsonBody)}
IN_A_ROW = {name: it for name, it in JSON.items() if not it.spelling.item.startswith("<")}
"""Those of which one mark opens several calls."""


def text(raw: str) -> list[Part]:
    return [("text", raw)]


def item_of(syntax: JsonBody, name: str, arguments: str) -> str:
    values = {"$name": json.dumps(name), "$arguments": arguments, "$id": "7"}
    item = syntax.spelling.item
    for gap, value in values.items():
        item = item.replace(gap, value)
    return item


def list_of(syntax: JsonBody, *items: str) -> str:
    spelling = syntax.spelling
    return spelling.before + spelling.between.join(items) + spelling.after


def read_calls(raw: str, syntax: CallSyntax) -> list[Part]:
    """Return what is read, once it is the same for pieces of some sizes."""
    readings = [
        fold(read_pieces([raw[at : at + size] for at in range(0, len(raw), size)], form, TOOLBOX))
        for form in [Writing(calls=(syntax,))]
        for size in (1, 2, 3, 7, 40, len(raw))
    ]
    assert all(reading == readings[0] for reading in readings)
    return readings[0]


def solid(parts: list[Part]) -> list[Part]:
    return [(kind, said.strip()) for kind, said in parts]


@pytest.mark.parametrize("name", IN_A_ROW)
def test_unknown_function_in_a_familys_list_is_text_in_its_place(name: str) -> None:
    syntax = IN_A_ROW[name]
    known = item_of(syntax, "find", '{"city":"B"}')
    gone = item_of(syntax, "gone", '{"a": {"b": ["}]", "\\"{"]}}')
    ended = item_of(syntax, "now", "{}")

    middle = read_calls(list_of(syntax, known, gone, ended), syntax)
    twice = read_calls(list_of(syntax, known, gone, gone, ended), syntax)
    last = read_calls(list_of(syntax, known, ended, gone), syntax)

    assert solid(middle) == [*FIND, *text(gone.strip()), *NOW]
    assert [part for part in twice if part[0] != "text"] == FIND + NOW
    assert dict(twice)["text"].count(gone.strip()) == 2
    assert solid(last) == [*FIND, *NOW, *text(gone.strip())]


ASIDES: list[tuple[str, JsonBody, list[Part]]] = [
    (f'[{FOUND},{{"name":"gone","arguments":{{}}}}, {FOUND}] so', json_family.GRANITE,
     [*FIND, *text('{"name":"gone","arguments":{}}'), *FIND, *text("so")]),
    (f'[{FOUND}, {{"x": "]"}}, {{"name": "now"}}]', json_family.GRANITE,
     [*FIND, *text('{"x": "]"}'), *NOW]),
    (f'[{FOUND}, {{"arguments": {{"a": "{"x" * 90}"}}, "name": "now"}}, {FOUND}]',
     json_family.GRANITE,
     [*FIND, *text(f'{{"arguments": {{"a": "{"x" * 90}"}}, "name": "now"}}'), *FIND]),
    (f'[{FOUND}, {{"name":"gone","arguments":{{"a":"\\', json_family.GRANITE,
     [*FIND, *text('{"name":"gone","arguments":{"a":"\\')]),
    (f'[{FOUND}, {{"name":"gone"', json_family.GRANITE, [*FIND, *text('{"name":"gone"')]),
    (f'[{FOUND}, {{"x":1}}}}, {FOUND}]', json_family.GRANITE,
     [*FIND, *text(f'{{"x":1}}}}, {FOUND}]')]),
    (f'[{FOUND}, {{"x":1}}, "id": 7}}]', json_family.GRANITE,
     [*FIND, *text('{"x":1}, "id": 7}]')]),
    (f'[{FOUND}, {{"x":1}} so]</TOOLCALL>', json_family.NEMOTRON,
     [*FIND, *text('{"x":1} so]</TOOLCALL>')]),
    (f'[{FOUND}, {{"x":1}}]</TOOLCALL>so', json_family.NEMOTRON,
     [*FIND, *text('{"x":1}so')]),
    (f'[{FOUND}, {{x}}, {FOUND}]', json_family.GRANITE, [*FIND, *text(f", {{x}}, {FOUND}]")]),
    (f'{FOUND}, {{"x":1}}]', json_family.BARE, [*FIND, *text('{"x":1}]')]),
    (f'[{FOUND}, {{"a":{{"b":1</TOOLCALL>{FOUND}', json_family.NEMOTRON,
     [*FIND, *text(f'{{"a":{{"b":1{FOUND}')]),
    (f'[{FOUND}, {{"a":["</TOOLCALL>", </TOOL', json_family.NEMOTRON,
     [*FIND, *text('{"a":["</TOOLCALL>", </TOOL')]),
    (f'[{FOUND}, 5, {FOUND}]', json_family.GRANITE, [*FIND, *text(f", 5, {FOUND}]")]),
    (f'{FOUND}\n{{"answer": 42}} is it.', json_family.BARE,
     [*FIND, *text('{"answer": 42} is it.')]),
    (f'```json\n[{FOUND},\n{{"x": 1}}\n]\n```\nso', json_family.BARE,
     [*FIND, *text('{"x": 1}\nso')]),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "syntax", "expected"), ASIDES)
def test_object_that_is_no_call_is_whole_text(
    raw: str, syntax: JsonBody, expected: list[Part]
) -> None:
    assert read_calls(f"{syntax.marks[0] if syntax.marks else ''}{raw}", syntax) == expected


LONG = "call_" + "7" * 90
MEMBERS = [
    f'"id":"{LONG}"',
    f'"id": "{LONG}", "index": 0, "type" : "function"',
    f'"meta":{{"a":["{LONG}",{{"b":"}}]</TOOLCALL>\\"\\\\"}}],"c":null}}, "n":-1.5e+3',
    f'"list":[["{LONG}"],[]],"ok":true',
    '"ends":"<|/tool_call|> ] } {"',
]


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize(
    "call",
    [
        '{"name":"find","arguments":{"city":"B"}',
        '{"name":"find","arguments":{"city":"B"} ',
        r'{"name":"find","arguments":"{\"city\":\"B\"}"',
        '{"type":"function","function":{"name":"find","arguments":{"city":"B"}}',
    ],
)
def test_members_behind_the_arguments_are_skipped_however_long(call: str, members: str) -> None:
    raw = f"<|tool_call|>[{call}, {members}}}, {FOUND}]so"

    assert read_calls(raw, json_family.GRANITE) == [*FIND, *FIND, *text("so")]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ('"id":"7', []),
        ('"id":"7\\', []),
        ('"id":[{"a"', []),
        ('"id": 7', []),
        ('"id": ', text(', "id": ')),
        ('"id": so', []),
        ('"id": <b>', text(', "id": <b>')),
        (f'"{LONG}": 7}}', text(f', "{LONG}": 7}}')),
    ],
)
def test_member_that_is_cut_off_or_none(rest: str, expected: list[Part]) -> None:
    raw = f'<|tool_call|>[{{"name":"find","arguments":{{"city":"B"}}, {rest}'

    assert read_calls(raw, json_family.GRANITE) == [*FIND, *expected]


PYTHON: list[tuple[CallSyntax, str, list[Part]]] = [
    (PYTHONIC, "[now(), gone(a=[1, ')'], b='x'), now()] so",
     [*NOW, *text("gone(a=[1, ')'], b='x')"), *NOW, *text("so")]),
    (PYTHONIC, "[now(), gone(), away(a={'b': (1,)}) , now()]",
     [*NOW, *text("gone()away(a={'b': (1,)}) "), *NOW]),
    (PYTHONIC, "[now(), set(5), now()]", [*NOW, *text("set(5)"), *NOW]),
    (PYTHONIC, "[now(), gone(a=1 + now()), now()]",
     [*NOW, *text("gone(a=1 + now()), now()]")]),
    (PYTHONIC, "[now(), gone(a=f(2), now()), now()]",
     [*NOW, *text("gone(a=f(2), now()), now()]")]),
    (PYTHONIC, "[now(), gone(a='x", [*NOW, *text("gone(a='x")]),
    (PYTHONIC, "[now(), gone(a='x\\", [*NOW, *text("gone(a='x\\")]),
    (PYTHONIC, "[now(), gone(", [*NOW, *text(", gone(")]),
    (LLAMA4, "<|python_start|>[now(), gone(a=1), now()]<|python_end|>so",
     [*NOW, *text("gone(a=1)"), *NOW, *text("so")]),
    (LFM2, "<|tool_call_start|>[now(), gone(a=1)]<|tool_call_end|>", [*NOW, *text("gone(a=1)")]),
    (GEMMA3, "```tool_code\nnow()\ngone(a=1)\nprint(now())\n```",
     [*NOW, *text("gone(a=1)\n"), *NOW]),
    (OLMO, "<function_calls>now()\ngone(a=1)\nnow()</function_calls>",
     [*NOW, *text("gone(a=1)\n"), *NOW]),
    (GEMMA4, '<|tool_call>call:now{}call:gone{a:<|"|>}<|"|>}call:now{}<tool_call|>',
     [*NOW, *text('call:gone{a:<|"|>}<|"|>}'), *NOW]),
]  # fmt: skip


@pytest.mark.parametrize(("syntax", "raw", "expected"), PYTHON)
def test_expression_that_calls_no_function_is_text(
    syntax: CallSyntax, raw: str, expected: list[Part]
) -> None:
    assert read_calls(raw, syntax) == expected


@pytest.mark.parametrize(
    ("syntax", "begun", "rest"),
    [
        (json_family.GRANITE, f'<|tool_call|>[{FOUND}, {{"name":"gone","arguments":{{"a":"',
         '"}}, {"name":"now","arguments":{}}]'),
        (PYTHONIC, "[find(city='B'), gone(a='x", "'), now()]"),
    ],
)  # fmt: skip
def test_what_is_no_call_leaves_while_it_comes(syntax: CallSyntax, begun: str, rest: str) -> None:
    parser = AnswerParser(Writing(calls=(syntax,)), TOOLBOX)
    parser.feed(begun)

    pieces = [piece for _ in range(3) for piece in parser.feed("more ")]
    (first, second, third), at = pieces, len(begun)
    after = parser.feed(rest) + parser.end()

    assert first == Text("more ", at)
    assert second == Text("more ", at + 5)
    assert third == Text("more ", at + 10)
    assert [piece for piece in after if isinstance(piece, CallOpened)] == [CallOpened("now")]


def test_arguments_stream_behind_what_is_no_call() -> None:
    parser = AnswerParser(Writing(calls=(json_family.GRANITE,)), TOOLBOX)
    parser.feed(f'<|tool_call|>[{FOUND}, {{"x": 1}}, {{"name": "find", "arguments": {{"city": "')

    assert parser.feed("Bern") == [CallArguments("Bern")]


def test_text_says_where_it_stands() -> None:
    raw = f'So: <|tool_call|>[{FOUND}, {{"x": 1}}, {FOUND}, {{"y": 2}}] end'

    for pieces in ([raw], list(raw)):
        read = read_pieces(pieces, Writing(calls=(json_family.GRANITE,)), TOOLBOX)
        said = [piece for piece in read if isinstance(piece, Text)]
        assert all(raw[each.at :].startswith(each.text) for each in said)
        assert "".join(part for _, part in fold(said)) == 'So:{"x": 1}{"y": 2}end'


@pytest.mark.slow
@pytest.mark.parametrize(
    "raw",
    [
        f"[{FOUND}" + ', {"x":1}' * 1_000,
        f"[{FOUND}, " + '{"x":' * 2_000,
        f'[{FOUND}, {{"x":"' + "\\" * 10_000,
        f"[{FOUND[:-1]}" + ', "id": 1' * 1_000,
        f'[{FOUND[:-1]}, "id": "' + "x" * 10_000,
        f'[{FOUND[:-1]}, "id": ' + "[" * 10_000,
        f'[{FOUND[:-1]}, "id": ' + "1" * 10_000,
        f'[{FOUND}, {{"x":1}}' + " " * 10_000,
    ],
)
def test_time_is_linear_in_the_text(raw: str) -> None:
    form = Writing(calls=(json_family.BARE,))

    assert is_linear(lambda text: read_pieces(list(text), form, TOOLBOX), raw)
