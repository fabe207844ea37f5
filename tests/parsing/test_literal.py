import ast
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from appliance.parsing.argument import is_object
from appliance.parsing.literal import PYTHON, Dialect, LiteralReader
from tests.parsing.call.drawing import PARTS, VALUES
from tests.parsing.call.writing import is_linear

BARE = Dialect("}", ":", ('<|"|>',), has_bare_text=True, brackets="[{")


def read(text: str, dialect: Dialect = PYTHON, first: str | None = None) -> tuple[str, str, str]:
    """Return what was written, how it ended and what was left, the same for single characters."""
    readings = []
    for size in (len(text) + 1, 1, 3):
        reader = LiteralReader(dialect, first)
        held, written = "", ""
        for start in range(0, len(text), size):
            held += text[start : start + size]
            held = held[reader.read(held, 0) :]
            written += reader.taken
        assert not (reader.is_done and reader.is_broken)
        ending = "done" if reader.is_done else "broken" if reader.is_broken else "open"
        readings.append((written, ending, held))
    assert readings[0] == readings[1] == readings[2]
    return readings[0]


def value_of(text: str) -> object:
    written, ending, left = read(f"a={text})")
    assert (ending, left) == ("done", "")
    return json.loads(written)["a"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"x"', "x"),
        ("'x'", "x"),
        ("'a\"b'", 'a"b'),
        ('"it\'s"', "it's"),
        ("'it's'", "it's"),
        ("'_a'_b'", "_a'_b"),
        ("''", ""),
        ('""""""', ""),
        ("'''a'b''c'''", "a'b''c"),
        ('"""a"b\n"""', 'a"b\n'),
        ("'a\nb\tc'", "a\nb\tc"),
        ("'a' \n 'b' \"c\" '''d'''", "abcd"),
        (r'"\x41\u00e9\U0001F600\N{BULLET}\101\0\7z"', "Aé😀•A\0\7z"),
        (r'"\n\t\\\'\"\a\b\f\r\v"', "\n\t\\'\"\a\b\f\r\v"),
        (r'"\ud83d\ude00"', "😀"),
        ('"a\\\nb\\\r\nc"', "abc"),
        (r'"\d\xZ\uZ\UFFFFFFFF\N{no such}\N{"', r"\d\xZ\uZ\UFFFFFFFF\N{no such}\N{"),
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("1e5", 1e5),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("1_0.2_5e-0_1", 1.025),
        ("1" * 300, int("1" * 300)),
        ("[True, False, None, true, false, null]", [True, False, None, True, False, None]),
        ("[]", []),
        ("[1,]", [1]),
        ("()", []),
        ("(1)", 1),
        ("(1,)", [1]),
        ("(1, (2, [3, ()]), ('a' 'b'))", [1, [2, [3, []]], "ab"]),
        ("{}", {}),
        ("{'a': 1, 2: 'b', None: [], True: {'c': (1,)},}",
         {"a": 1, "2": "b", "null": [], "true": {"c": [1]}}),
    ],
)  # fmt: skip
def test_value_is_what_python_says(text: str, value: object) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "written", "left"),
    [
        ("a=foo)", '{"a":', "foo)"),
        ("a=nan)", '{"a":', "nan)"),
        ("a=1e999)", '{"a":1e999}', None),
        ("a=+1e999)", '{"a":', "+1e999)"),
        ("a=1j)", '{"a":', "1j)"),
        ("a=007)", '{"a":', "007)"),
        ("a=1__0)", '{"a":', "1__0)"),
        ("a=0b12)", '{"a":', "0b12)"),
        ("a=-)", '{"a":', "-)"),
        ("a=b'x')", '{"a":', "b'x')"),
        ("a='x'.y)", '{"a":"x"', ".y)"),
        ("a=1+1)", '{"a":', "1+1)"),
        ("a=1 + 1)", '{"a":1', "+ 1)"),
        ("a=[1 2])", '{"a":[1', "2])"),
        ("a=[1})", '{"a":[1', "})"),
        ("a={1})", '{"a":{"1"', "})"),
        ("a={[1]: 2})", '{"a":{', "[1]: 2})"),
        ("a={x: 2})", '{"a":{', "x: 2})"),
        ("a={'x'= 2})", '{"a":{"x"', "= 2})"),
        ("a=,)", '{"a":', ",)"),
        ("a=)", '{"a":', ")"),
        ("a: 1)", '{"a"', ": 1)"),
        ("'a'=1)", "{", "'a'=1)"),
        ("a 'b')", '{"a"', "'b')"),
        ("a=1 'b')", '{"a":1', "'b')"),
        ("a=1, **b)", '{"a":1,"**b"', ")"),
        ("]", "{", "]"),
        ("a=" + "9" * 400 + ")", '{"a":', "9" * 400 + ")"),
    ],
)
def test_what_json_has_no_word_for_is_broken(text: str, written: str, left: str | None) -> None:
    result = read(text)

    assert result == ((written, "broken", left) if left else (written, "done", ""))


def test_round_brackets_are_held_until_it_is_known_what_they_are() -> None:
    reader = LiteralReader(PYTHON)

    taken = []
    for piece in ("a=(", "'x', ", "[1]", ") ", ", b='y"):
        assert reader.read(piece, 0) == len(piece)
        taken.append(reader.taken)

    assert taken == ['{"a":', "", "", '["x",[1]]', ',"b":"y']


def test_string_is_written_while_it_comes() -> None:
    reader = LiteralReader(PYTHON)

    taken = []
    for piece in ("a='x", 'y"', "\n"):
        assert reader.read(piece, 0) == len(piece)
        taken.append(reader.taken)

    assert taken == ['{"a":"x', 'y\\"', "\\n"]


def test_first_value_may_come_without_its_name() -> None:
    assert read("'x', b=1)", first='a"') == ('{"a\\"":"x","b":1}', "done", "")


def test_nesting_is_bounded() -> None:
    written, ending, _ = read("a=" + "[" * 1000)

    assert ending == "broken"
    assert written.count("[") < 100


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("}", {}),
        ("city:Oslo}", {"city": "Oslo"}),
        ("city: New York , n: 5 }", {"city": "New York", "n": 5}),
        ("@a.b-c d:1,$ref:true,ü:None}", {"@a.b-c d": 1, "$ref": True, "ü": None}),
        ('"a":1,\'b\':2,<|"|>c<|"|>:3}', {"a": 1, "b": 2, "c": 3}),
        ('q:<|"|>a"b\\n{}\'<|"<|"|>}', {"q": 'a"b\\n{}\'<|"'}),
        ("t:10:30,f:sin(x),p:C:/a}", {"t": "10:30", "f": "sin(x)", "p": "C:/a"}),
        ("n:[1,-2.5,1e-07,007,inf,1_0]}", {"n": [1, -2.5, 1e-7, "007", "inf", "1_0"]}),
        ("o:{a:{b:[]},c:<x>}}", {"o": {"a": {"b": []}, "c": "<x>"}}),
        ("f: 'a, b: {c}.pdf'}", {"f": "a, b: {c}.pdf"}),
    ],
)
def test_bare_texts_and_names_stand_for_themselves(text: str, arguments: object) -> None:
    written, ending, left = read(text, BARE)

    assert (json.loads(written), ending, left) == (arguments, "done", "")


@pytest.mark.parametrize(
    "said",
    ["word " * 200 + "word", "7 " * 300 + "dwarfs", "x" * 399, "y" * 400, "tr ue", "null and void",
     "e", "-", "9" * 500, 'it\'s "so" \\ <|"|> (1)', "a" + " " * 500 + "b\tc"],
)  # fmt: skip
def test_bare_text_may_have_any_length(said: str) -> None:
    written, ending, left = read(f"a: {said}  ,b:[{said} ]}}", BARE)

    assert (json.loads(written), ending, left) == ({"a": said, "b": [said]}, "done", "")


def test_bare_text_is_written_while_it_comes() -> None:
    reader = LiteralReader(BARE)

    taken, held = [], ""
    for piece in ("a:tr", "y", ' it "now"', "  ", " \t", "ok ", " ", ",b:1", "2 ", "}"):
        held += piece
        held = held[reader.read(held, 0) :]
        taken.append(reader.taken)

    assert taken == [
        *('{"a":', '"try', ' it \\"now\\"', "", "", "   \\tok", "", '","b":', "", "12}"),
    ]


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b_1", "ö"]), VALUES, max_size=3))
def test_what_python_writes_is_read_back(arguments: dict[str, Any]) -> None:
    text = ", ".join(f"{name}={value!r}" for name, value in arguments.items())

    written, ending, _ = read(f"{text})")

    assert ending == "done"
    assert json.loads(written) == json.loads(json.dumps(arguments))


@settings(max_examples=40, deadline=None)
@given(st.lists(PARTS, max_size=30).map("".join), st.sampled_from([PYTHON, BARE]))
@example("(1", PYTHON)
def test_any_text_is_read_to_where_it_cannot_go_on(text: str, dialect: Dialect) -> None:
    written, ending, left = read(text, dialect)

    assert text.endswith(left)
    assert ending != "done" or "\ud83d" in text or is_object(written)


@settings(max_examples=40, deadline=None)
@given(st.lists(PARTS, max_size=8).map("".join))
@example("{4: '\\x41' 'é'}")
def test_what_python_takes_for_a_literal_is_read_alike(text: str) -> None:
    value = _literal_of(text)

    written, ending, left = read(f"a={text})")

    if (ending, left) == ("done", "") and value is not None:
        assert json.loads(written)["a"] == value[0]


def _literal_of(text: str) -> list[Any] | None:
    """Return the value, as JSON has it, of an only argument; None if Python sees none."""
    try:
        call = ast.parse(f"f(a={text})", mode="eval").body
        assert isinstance(call, ast.Call)
        (argument,) = call.keywords
        value = ast.literal_eval(argument.value)
        return [json.loads(json.dumps(value))]
    except (ValueError, SyntaxError, TypeError, AssertionError):
        return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["a:b" + " " * 40_000, "a:" + "b " * 20_000, "a:" + "9" * 40_000],
)
def test_time_is_linear_in_bare_text(text: str) -> None:
    assert is_linear(partial(_read_characters, dialect=BARE), text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["a='" + "\\" * 40_000, "a='''" + "'" * 40_000, "a=" + " " * 40_000, "a=(" + "1," * 20_000,
     "a=[" + "9" * 40_000, "a='" + "<" * 40_000],
)  # fmt: skip
def test_time_is_linear_in_the_text(text: str) -> None:
    assert is_linear(_read_characters, text)


def _read_characters(text: str, dialect: Dialect = PYTHON) -> None:
    reader = LiteralReader(dialect)
    held = ""
    for character in text:
        held += character
        held = held[reader.read(held, 0) :]
        if reader.is_broken:
            break
