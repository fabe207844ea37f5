"""Calls that are JSON objects are read however they are spelled and cut, and nothing else is."""

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.parsing.call.json_body import JsonBody
from appliance.parsing.call.json_family import (
    APERTUS,
    BARE,
    COHERE,
    COMMAND_R,
    FUNCTOOLS,
    GRANITE,
    HERMES,
    LLAMA,
    MINIMAX_M1,
    MISTRAL,
    TOOL_CALLS,
)
from appliance.parsing.parsed import CallArguments, CallClosed, CallOpened, Parsed, Text
from appliance.parsing.parser import AnswerParser
from appliance.parsing.syntax import Stage
from tests.examples import examples
from tests.parsing.answer_reading import Part, fold, read_pieces
from tests.parsing.call.writing import TOOLBOX, Writing, read_calls


def call(arguments: str, name: str = "now", end: str = "sound") -> list[Part]:
    return [("call", name), ("arguments", arguments), ("end", end)]


def text(raw: str) -> list[Part]:
    return [("text", raw)]


NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
EMPTY = call("{}")
LONG = "x" * 70

HERMES_CALLS = {
    NOW: EMPTY,
    f"Let me see. \n{NOW}\n": [*text("Let me see."), *EMPTY],
    f"{NOW}\n{NOW}": EMPTY + EMPTY,
    f"{NOW}{NOW}after": [*EMPTY, *EMPTY, *text("after")],
    f"{NOW}\n\n</tool_call>\n": EMPTY,
    f"{NOW}</_call>": EMPTY,
    f"{NOW} and </tool_call>": [*EMPTY, *text("and </tool_call>")],
    '<tool_call>{"name":"now"}</tool_call>': EMPTY,
    '<tool_call>{"name":"now"}': EMPTY,
    '<tool_call>{"name":"now","arguments":null}</tool_call>': EMPTY,
    '<tool_call>{"name":"now","arguments":""}</tool_call>': EMPTY,
    '<tool_call>{"name":"now","parameters":{"a": 1}}</tool_call>': call('{"a": 1}'),
    '<tool_call>{"arguments":{"a":1.50},"name":"now"}</tool_call>': call('{"a":1.50}'),
    '<tool_call>{"arguments":{"a":"1\n2"},"name":"now"}</tool_call>': call('{"a":"1\\n2"}'),
    '<tool_call>{"arguments":{"items":"[1]"},"name":"set"}</tool_call>': call(
        '{"items":[1]}', "set"
    ),
    '<tool_call>{"id":1,"name":"now"}</tool_call>': EMPTY,
    '<tool_call>{"id":1,"name":"now","kind":"f","arguments":{"a":1}}</tool_call>': call('{"a":1}'),
    '<tool_call>{"name":"n\\u006fw","arguments":{}}</tool_call>': EMPTY,
    '<tool_call>{"name":"now","arguments":{"a":{"b":[{"c":"}]"}]}}}</tool_call>': call(
        '{"a":{"b":[{"c":"}]"}]}}'
    ),
    '<tool_call>{"name":"now","arguments":{"a":"</tool_call> \\" <tool_call>"}}</tool_call>': call(
        '{"a":"</tool_call> \\" <tool_call>"}'
    ),
    '<tool_call>{"name":"now","arguments":{"a":"1\n2\t"}}</tool_call>': call('{"a":"1\\n2\\t"}'),
    '<tool_call>{"name":"set","arguments":{"items":"[1, 2]"}}</tool_call>': call(
        '{"items":[1, 2]}', "set"
    ),
    '<tool_call>{"name":"now","arguments":{}': EMPTY,
    '<tool_call>{"name":"now","arguments":{}</tool_call>ok': [*EMPTY, *text("ok")],
    '<tool_call>{"name":"now","arguments":{}}}\n</tool_call>ok': [*EMPTY, *text("ok")],
    '<tool_call>{"name":"now","arguments":{},"id":"</tool_call>"}</tool_call>': EMPTY,
    '<tool_call>{"name":"now","arguments":{}},"id":"7"}</tool_call>ok': [*EMPTY, *text("ok")],
    f'<tool_call>{{"name":"now","arguments":{{}}}} {LONG}{LONG}': [*EMPTY, *text(LONG + LONG)],
    f'<tool_call>{{"name":"now","arguments":{{}}}} so{NOW}': [*EMPTY, *text("so"), *EMPTY],
    '<tool_call>{"name":"now","arguments":{}} bye </tool': [*EMPTY, *text("bye </tool")],
    '<tool_call>```json\n{"name":"now","arguments":{}}\n```</tool_call>ok': [*EMPTY, *text("ok")],
    '<tool_call>[{"name":"now","arguments":{}},{"name":"now"}]</tool_call>ok': [
        *EMPTY,
        *EMPTY,
        *text("ok"),
    ],
    '<tool_call>{"name":"now","arguments":{}}\n{"name":"find","arguments":{}}</tool_call>': [
        *EMPTY,
        *call("{}", "find"),
    ],
    '<tool_call>{"type":"function","function":{"name":"now","arguments":{"a":1}}}</tool_call>': (
        call('{"a":1}')
    ),
    '<tool_call>{"function":{"arguments":{"a":1},"name":"now"}}</tool_call>': call('{"a":1}'),
}

ENCODED = {
    '"{}"': "{}",
    '"null"': "{}",
    r'"{\"a\": \"b\\n\\\"c\\\"\"}"': r'{"a": "b\n\"c\""}',
    r'"{\"a\":\"\u00e9\ud83d\ude00\\u00e9\"}"': r'{"a":"é😀\u00e9"}',
    r'"{\"a\":\"<\/tool_call>\"} "': '{"a":"</tool_call>"}',
    r'" {\"a\":1}': '{"a":1}',
    r'"{\"a\":1\u007d"': '{"a":1}',
    r'"{\"a\":1}", "id": "7"': '{"a":1}',
}

BROKEN = {
    '<tool_call>{"name":"now","arguments":{"a":"b': call('{"a":"b', end="broken"),
    '<tool_call>{"name":"now","arguments":{"a":"b\\': call('{"a":"b\\', end="broken"),
    '<tool_call>{"name":"now","arguments":{"a":1</tool': call('{"a":1</tool', end="broken"),
    '<tool_call>{"name":"set","arguments":{"items":"[1': call('{"items":"[1', "set", end="broken"),
    f'<tool_call>{{"name":"now","arguments":{{"a":1</tool_call>\nso {NOW}': [
        *call('{"a":1', end="broken"),
        *text(f"so {NOW}"),
    ],
    '<tool_call>{"name":"now","arguments":{"a":True}}</tool_call>ok': [
        *call('{"a":True}', end="broken"),
        *text("ok"),
    ],
    '<tool_call>{"name":"now","arguments":{"a":[1}}</tool_call>ok': [
        *call('{"a":[1}}', end="broken"),
        *text("ok"),
    ],
    '[{"name":"now","arguments":{x}},{"name":"now","arguments":{}}]': [
        *call("{x}", end="broken"),
        *text(',{"name":"now","arguments":{}}]'),
    ],
    '<tool_call>{"name":"now","arguments":{<b>}}</tool_call>': call("{<b>}", end="broken"),
    r'<tool_call>{"name":"now","arguments":"{\"a\":1"}</tool_call>ok': [
        *call('{"a":1', end="broken"),
        *text("ok"),
    ],
    r'<tool_call>{"name":"now","arguments":"{\"a\":\x}"}</tool_call>': call(
        '{"a":\\x}', end="broken"
    ),
    r'<tool_call>{"name":"now","arguments":"{\"a\":\u00': call('{"a":\\u00', end="broken"),
}

NO_CALLS = [
    "Hello! How can I help?",
    "Use <tool_call> and </tool_call> in XML.",
    "```\n<tool_call>\n```",
    '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "now", "arguments": 7}</tool_call>',
    '<tool_call>{"name": "now", "arguments": "soon"}</tool_call>',
    '<tool_call>{"name": "now", "arguments": []}</tool_call>',
    '<tool_call>{"name": "no\\w", "arguments": {}}</tool_call>',
    '<tool_call>{"arguments": {}, "name": "no\\w"}</tool_call>',
    '<tool_call>{"arguments": {}, "name": "rm"}</tool_call>',
    '<tool_call>{"name": 5}</tool_call>',
    '<tool_call>{"function": {"name": 5}}</tool_call>',
    '<tool_call>{"title": "now"}</tool_call>',
    "<tool_call>{now}</tool_call>",
    f'<tool_call>{{"name": "now", "what": "{LONG}{LONG}", "arguments": {{}}}}</tool_call>',
    f'<tool_call>{{"arguments": {{"a": "{LONG}{LONG}"}}, "name": "now"}}</tool_call>',
    "<tool_call>glob\n<arg_key>pattern</arg_key>\n<arg_value>**/a.md</arg_value>\n</tool_call>",
    "<tool_call>",
    '<tool_call>\n{"na',
    '<tool_call>{"name": "now"',
    f"<tool_call>{' ' * 200}{{",
    "1 <\n<<tool_call <",
    "🙂" * 40 + "<tool_call>🙂",
    'So: {"name":"now","arguments":{}} is it.',
    '{"name":"rm","arguments":{}}',
    '{"answer": 42}',
    "[1, 2]",
    "[",
    "{",
    "```json\n[1]\n```",
    "```js",
    "```python\nx\n```",
]


@pytest.mark.parametrize("raw", [*HERMES_CALLS, *BROKEN])
def test_call_between_marks_is_read_however_it_is_spelled(raw: str) -> None:
    assert read_calls(raw, HERMES, BARE) == (HERMES_CALLS | BROKEN)[raw]


@pytest.mark.parametrize("encoded", ENCODED)
def test_arguments_encoded_twice_are_decoded_once(encoded: str) -> None:
    raw = f'<tool_call>{{"name":"now","arguments":{encoded}}}</tool_call>ok'

    assert read_calls(raw, HERMES) == [*call(ENCODED[encoded]), *text("ok")]


@pytest.mark.parametrize("raw", NO_CALLS)
def test_what_is_no_call_is_text(raw: str) -> None:
    assert read_calls(raw, HERMES, BARE) == text(raw)


FIND = call('{"city":"B"}', "find")
FOUND = '{"name":"find","arguments":{"city":"B"}}'
BOTH = [*FIND, *EMPTY]
OTHERS: list[tuple[str, JsonBody, list[Part]]] = [
    (FOUND, BARE, FIND),
    (f" \n{FOUND}\n", BARE, FIND),
    (f"{FOUND} That is it.", BARE, [*FIND, *text("That is it.")]),
    (f"```json\n{FOUND}\n```", BARE, FIND),
    (f"```\n[{FOUND}]\n```\nso", BARE, [*FIND, *text("so")]),
    (f'[{FOUND}, {{"name": "now"}}]', BARE, BOTH),
    (f'[\n{FOUND},\n{{"name": "now"}}\n]\nso', BARE, [*BOTH, *text("so")]),
    (f'[{FOUND},{{"name":"rm","arguments":{{}}}}]', BARE,
     [*FIND, *text('{"name":"rm","arguments":{}}')]),
    (f'{FOUND}\n{FOUND}', BARE, FIND + FIND),
    (f"{FOUND}, so", BARE, [*FIND, *text(", so")]),
    (f'{FOUND}, "so', BARE, [*FIND, *text(', "so')]),
    ('<|python_tag|>{"type": "function", "name": "now", "parameters": {}}; {"name": "find", '
     '"parameters": {"city":"B"}}', LLAMA, [*EMPTY, *FIND]),
    ('{"name": "find", "parameters": {"city":"B"}}', LLAMA, FIND),
    ("<|python_tag|>print(1)", LLAMA, text("<|python_tag|>print(1)")),
    (f'[TOOL_CALLS] [{FOUND[:-1]}, "id": "123456789"}}, {{"name": "now", "arguments": {{}}, '
     '"id": "abcdefghi"}] so', MISTRAL, [*BOTH, *text("so")]),
    (f"ok <|tool_call|>[{FOUND}]so", GRANITE, [*text("ok"), *FIND, *text("so")]),
    (f"ok functools[{FOUND}]", FUNCTOOLS, [*text("ok"), *FIND]),
    ("functools.partial", FUNCTOOLS, text("functools.partial")),
    ('<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "now", "parameters": {}}\n]'
     "<|END_ACTION|>", COHERE, EMPTY),
    ('Action: ```json\n[\n  {\n        "tool_name": "now",\n        "parameters": {}\n    }\n]```',
     COMMAND_R, EMPTY),
    ("Action: stop", COMMAND_R, text("Action: stop")),
    ('<|tools_prefix|>[{"find": {"city":"B"}}, {"now": null}]<|tools_suffix|>so', APERTUS,
     [*BOTH, *text("so")]),
    ('<|tools_prefix|>[{"now": {}', APERTUS, EMPTY),
    ('<|tools_prefix|>[{"now": 1}]', APERTUS, text('<|tools_prefix|>[{"now": 1}]')),
    (f'<tool_calls>[{FOUND}, {{"name": "now"}}]</tool_calls>', TOOL_CALLS, BOTH),
    (f'<tool_calls>[{FOUND}] </tool_calls', TOOL_CALLS, [*FIND, *text("</tool_calls")]),
    (f'<tool_calls>[{FOUND}] so', TOOL_CALLS, [*FIND, *text("so")]),
    (f"<tool_calls>{FOUND}</tool_calls>", TOOL_CALLS, text(f"<tool_calls>{FOUND}</tool_calls>")),
    (f'<tool_calls>\n{FOUND}\n{{"name": "now"}}\n</tool_calls>', MINIMAX_M1, BOTH),
    (f"<tool_calls>[{FOUND}]", MINIMAX_M1, text(f"<tool_calls>[{FOUND}]")),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "syntax", "expected"), OTHERS)
def test_each_familys_way_of_writing_is_read(
    raw: str, syntax: JsonBody, expected: list[Part]
) -> None:
    assert read_calls(raw, syntax) == expected


def test_later_calls_of_a_list_stream_like_the_first() -> None:
    parser = AnswerParser(Writing(calls=(MISTRAL,)), TOOLBOX)
    leaving = [
        fold(parser.feed(each))
        for each in (
            f"[TOOL_CALLS][{FOUND}",
            ', {"name": "now", ',
            '"arguments": {"a',
            '": "b',
            "c",
        )
    ]

    assert leaving == [
        FIND,
        [],
        [("call", "now"), ("arguments", '{"a')],
        [("arguments", '": "b')],
        [("arguments", "c")],
    ]


def test_nothing_is_taken_before_it_is_a_call() -> None:
    pieces: list[Parsed] = []
    reader = HERMES.reader("<tool_call>", TOOLBOX, pieces)
    raw = '\n{"name": "now", "arguments": {"a": 1}}\n</tool_call> so'
    commit = raw.index('"a"') - 1

    assert [reader.read(raw[:size], 0, is_last=False) for size in range(commit + 1)] == [0] * (
        commit + 1
    )
    assert not pieces
    assert reader.read(raw, 0, is_last=False) == len(raw) - len(" so")
    assert reader.stage is Stage.OVER
    assert reader.opens is None
    assert pieces == [CallOpened("now"), CallArguments('{"a": 1}'), CallClosed(True)]


SYNTAXES = (
    *(HERMES, BARE, LLAMA, GRANITE, MISTRAL, COHERE, COMMAND_R, APERTUS, TOOL_CALLS),
    MINIMAX_M1,
)
MARKS = [mark for each in SYNTAXES for mark in (*each.marks, *each.closings, *each.bare)]
MORSELS = st.sampled_from(
    [
        *(FOUND, '{"name": "now", ', '"arguments": ', '"parameters":', '{"items": ', '"', "{", "}"),
        *("}}", "[", "]", "\\", '{"find": {', '{"tool_name": "now", "parameters": {', '"[1]"'),
        *('{"type": "function", ', '"function": {', '"id": "abc"', ", ", "; ", ",", "\n", " "),
        *('{"name":"set","arguments":{', "{}", r"\"", r"\u00e9", "null", ":", LONG, "a", "😀"),
        *(r'"{\"a\": ', '},"id":"7"', '"arguments":""', '"n": "3"', '"items": "[', "`", "```", "<"),
        *MARKS,
    ]
)
RAWS = st.lists(MORSELS, max_size=16).map("".join)


@settings(deadline=None, max_examples=examples(150))
@given(st.sampled_from(MARKS), RAWS, st.lists(st.integers(0, 300), max_size=6))
def test_calls_do_not_depend_on_the_pieces(mark: str, raw: str, cuts: list[int]) -> None:
    form = Writing(calls=SYNTAXES)
    whole = fold(read_pieces([mark + raw], form, TOOLBOX))

    single = fold(read_pieces(list(mark + raw), form, TOOLBOX))
    edges = [0, *sorted(cut % (len(mark + raw) + 1) for cut in cuts), len(mark + raw)]
    pieces = [(mark + raw)[a:b] for a, b in itertools.pairwise(edges)]

    assert single == whole
    assert fold(read_pieces(pieces, form, TOOLBOX)) == whole


@settings(deadline=None, max_examples=examples(150))
@given(st.sampled_from(MARKS), RAWS)
def test_text_without_a_call_is_whole(mark: str, raw: str) -> None:
    pieces = read_pieces([mark + raw], Writing(calls=SYNTAXES), TOOLBOX)

    if all(isinstance(piece, Text) for piece in pieces):
        assert fold(pieces) == text(mark + raw)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("syntax", "raw"),
    [
        (HERMES, '<tool_call>{"' * 2_500),
        (HERMES, '<tool_call>{"a":1,' * 2_000),
        (HERMES, '<tool_call>{"}}}}}' * 2_000),
        (HERMES, '<tool_call>{"name":"now","arguments":{"a":"' + "<" * 30_000),
        (HERMES, '<tool_call>{"name":"now","arguments":{}}' + " " * 30_000),
        (MISTRAL, '[TOOL_CALLS][{"name":"now","arguments":{}' + ', "id":"' * 4_000),
        (MISTRAL, "[TOOL_CALLS][" + f"{FOUND}, " * 800),
        (BARE, "[{" * 15_000),
        (BARE, f"{FOUND}\n" * 800),
    ],
)
def test_time_is_linear_in_the_text(syntax: JsonBody, raw: str) -> None:
    began = time.process_time()

    read_pieces(list(raw), Writing(calls=(syntax,)), TOOLBOX)

    assert time.process_time() - began < 5
