import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.request import Tool
from appliance.parsing.call.pythonic import (
    GEMMA3,
    LFM2,
    LFM2_JSON,
    LLAMA3_BUILTIN,
    LLAMA4,
    OLMO,
    PYTHONIC,
    PythonSyntax,
)
from appliance.parsing.parsed import CallArguments, Parsed
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import Part, fold, part_of, read_pieces
from tests.parsing.call.drawing import PARTS, VALUES
from tests.parsing.call.writing import TOOLBOX, Writing, is_linear, read_calls, sound

OSLO = sound("find", city="Oslo")
NOW = sound("now")


def broken(name: str, arguments: str) -> list[Part]:
    return [("call", name), ("arguments", arguments), ("end", "broken")]


def text(said: str) -> Part:
    return ("text", said)


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ('[find(city="Oslo")]', OSLO),
        (f"[now(), now({'a' * 128}=1)]", [*NOW, *sound("now", **{"a" * 128: 1})]),
        ('\n [ find ( city = "Oslo" , ) , now( ) , ] \n', OSLO + NOW),
        ('[find(city="Oslo"), now()] Done.', [*OSLO, *NOW, text("Done.")]),
        ('[find(city="Oslo")][now()]', OSLO + NOW),
        ('[print(find(city="Oslo"))]', OSLO),
        ('[find("Oslo")]', OSLO),
        ("[set(n='5', items='[1,2]', x='7')]", sound("set", n=5, items=[1, 2], x="7")),
        ('[find(city="Oslo"), gone(a=1)]', [*OSLO, text("gone(a=1)")]),
        ('[find(city="Oslo"), "x"]', [*OSLO, text(', "x"]')]),
        ('[find(city="Oslo")', OSLO),
        ('[find(city="Oslo"),', [*OSLO, text(",")]),
        ('[find(city="Oslo"), now', [*OSLO, text(", now")]),
        ('[print(find(city="Oslo")', OSLO),
        ('[print(find(city="Oslo") + 1)]', [*OSLO, text("+ 1)]")]),
        ("[set(n=f(2)), now()] [now()]", [*broken("set", '{"n":'), text("f(2)), now()] [now()]")]),
        ("[set(n=1, x='ab", broken("set", '{"n":1,"x":"ab')),
        ("[set(n=12", broken("set", '{"n":')),
        ("[set(x='\\ud83d')]", [*broken("set", '{"x":"\\ud83d"}'), text("]")]),
        ("[set(5)]", [text("[set(5)]")]),
        ("[now(5)]", [text("[now(5)]")]),
        ("[set(x)]", [text("[set(x)]")]),
        ("[set(x", [text("[set(x")]),
        ("[gone(a=1)]", [text("[gone(a=1)]")]),
        ("[api.now()]", [text("[api.now()]")]),
        ("[1] and [now()]", [text("[1] and [now()]")]),
        ("See [now()]", [text("See [now()]")]),
        ("let a = snake[", [text("let a = snake[")]),
        ("[", [text("[")]),
        ("[" + " " * 200 + "now()]", [text("[" + " " * 200 + "now()]")]),
        ("now()", [text("now()")]),
    ],
)  # fmt: skip
def test_list_begins_an_answer(answer: str, parts: list[Part]) -> None:
    assert read_calls(answer, PYTHONIC) == parts


@pytest.mark.parametrize(
    ("syntax", "answer", "parts"),
    [
        (LFM2, "Yes.<|tool_call_start|>[find(city='Oslo'), now()]<|tool_call_end|>",
         [text("Yes."), *OSLO, *NOW]),
        (LFM2, "<|tool_call_start|>find(city='Oslo')<|tool_call_end|>\nx", [*OSLO, text("x")]),
        (LFM2, "<|tool_call_start|>[api.find(city='Oslo')<|tool_call_end|>", OSLO),
        (LFM2, "<|tool_call_start|>[now()]", NOW),
        (LFM2, "<|tool_call_start|>[gone()]<|tool_call_end|>",
         [text("<|tool_call_start|>[gone()]<|tool_call_end|>")]),
        (LFM2, "<|tool_call_start|>[x, now()]", [text("<|tool_call_start|>[x, now()]")]),
        (LFM2_JSON, '<|tool_call_start|>[{"name": "now", "arguments": {}}]<|tool_call_end|>', NOW),
        (LLAMA4, "<|python_start|>[now(), find(city='Oslo')]<|python_end|>", NOW + OSLO),
        (GEMMA3, "So:\n```tool_code\nprint(find(city='Oslo'))\nnow()\n```\nDone.",
         [text("So:"), *OSLO, *NOW, text("Done.")]),
        (GEMMA3, "```tool_code\n[now(), find(city='Oslo')]\n``` ", NOW + OSLO),
        (GEMMA3, "```tool_code\n[now(), find(city='Oslo')] # x", [*NOW, *OSLO, text("# x")]),
        (GEMMA3, "```tool_code\nnow(); default_api.find(city='Oslo')\n```", NOW + OSLO),
        (GEMMA3, "```tool_code\nnow()\nprint('x')\n```", [*NOW, text("print('x')\n")]),
        (GEMMA3, "```tool_code\nnow()\n``", [*NOW, text("``")]),
        (GEMMA3, "```python\nnow()\n```", [text("```python\nnow()\n```")]),
        (OLMO, "<function_calls>find(city='Oslo')\nnow()</function_calls>", OSLO + NOW),
        (LLAMA3_BUILTIN, '<|python_tag|>find.call(city="Oslo")', OSLO),
        (LLAMA3_BUILTIN, '<|python_tag|>print("now()")', [text('<|python_tag|>print("now()")')]),
    ],
)  # fmt: skip
def test_marked_calls_are_read_anywhere(
    syntax: PythonSyntax, answer: str, parts: list[Part]
) -> None:
    assert read_calls(answer, syntax) == parts


def test_name_with_a_prefix_is_taken_only_if_one_function_is_meant() -> None:
    toolbox = Toolbox([Tool("pdf"), Tool("a.pdf"), Tool("print")])
    answer = "<|tool_call_start|>[b.a.pdf(), pdf(), a.pdf(), b.pdf(), print(), x.print()]"

    parts = read_calls(answer, LFM2, toolbox=toolbox)

    assert parts == [text(answer)]
    assert read_calls(answer.replace("b.a.pdf(), ", ""), LFM2, toolbox=toolbox) == [
        part for name in ("pdf", "a.pdf", "pdf", "print", "print") for part in sound(name)
    ]


def test_call_is_certain_once_its_first_argument_is_named() -> None:
    pieces: list[Parsed] = []
    reader = PYTHONIC.reader("[", TOOLBOX, pieces)

    assert reader.read("find(city", 0, is_last=False) == 0
    assert pieces == []
    assert reader.read("find(city='O", 0, is_last=False) == 12
    assert fold(pieces) == [("call", "find"), ("arguments", '{"city":"O')]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["find", "set", "now"]),
            st.dictionaries(st.sampled_from(["a", "b_1", "größe"]), VALUES, max_size=3),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([PYTHONIC, LFM2, LLAMA4, GEMMA3, OLMO]),
)
def test_calls_that_python_writes_are_read_back(
    calls: list[tuple[str, dict[str, Any]]], syntax: PythonSyntax
) -> None:
    written = syntax.between.join(
        f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        for name, arguments in calls
    )
    answer = f"{syntax.opening}{syntax.before}{written}{syntax.behind}{syntax.closing}"
    untyped = Toolbox([Tool("find"), Tool("set"), Tool("now")])

    pieces = read_pieces([answer], Writing(calls=(syntax,)), untyped)

    assert [
        (kind, json.loads(said) if kind == "arguments" else said) for kind, said in fold(pieces)
    ] == [
        part
        for name, arguments in calls
        for part in (
            ("call", name),
            ("arguments", json.loads(json.dumps(arguments))),
            ("end", "sound"),
        )
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(PARTS | st.sampled_from(["[find(", "[now()", "```tool_code\n", "```", "print("])).map(
        lambda parts: "".join(parts).replace("\ud83d", "")
    ),
    st.sampled_from([PYTHONIC, GEMMA3]),
)
def test_what_belongs_to_no_call_is_said(answer: str, syntax: PythonSyntax) -> None:
    parts = read_calls(answer, syntax)

    assert parts or not answer.strip()
    if all(kind == "text" for kind, _ in parts):
        assert "".join(said for _, said in parts) == answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        "[" * 20_000,
        "[now()" + " " * 20_000,
        "[now()" + "," * 20_000,
        "[" + "now()," * 3_000,
        "[set(x='" + "<" * 20_000,
        "[set(x=" + "[" * 20_000,
        "[" + "n" * 20_000,
    ],
)
def test_time_is_linear_in_the_answer(answer: str) -> None:
    form = Writing(calls=(PYTHONIC,))

    assert is_linear(lambda text: read_pieces(text, form, TOOLBOX), answer)


def test_every_piece_of_arguments_says_something() -> None:
    pieces = read_pieces("[set(n=1, x=('a', 'b'))]", Writing(calls=(PYTHONIC,)), TOOLBOX)

    assert all(part_of(piece)[1] for piece in pieces if isinstance(piece, CallArguments))
