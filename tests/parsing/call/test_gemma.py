import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.probe import find_traits
from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.template import ChatTemplate
from appliance.parsing.call.gemma import FUNCTION_GEMMA, GEMMA4
from appliance.parsing.call.pythonic import GEMMA4_FALLBACK
from appliance.parsing.toolbox import Toolbox
from tests.chat.gallery import SPECIAL_TOKENS, Template, read_sources
from tests.parsing.answer_reading import Part, fold, read_pieces
from tests.parsing.call.drawing import PARTS
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
        ('Yes.<|tool_call>call:find{city:<|"|>Oslo<|"|>}<tool_call|>', [text("Yes."), *OSLO]),
        ("<|tool_call>call:now{}<tool_call|><|tool_call>call:now{}<tool_call|>", NOW + NOW),
        ("<|tool_call>call:now{}<tool_call|><|tool_response>", NOW),
        ("<|tool_call> call : now { } <tool_call|>\nDone.", [*NOW, text("Done.")]),
        ("<|tool_call>call:now{}call:find{city:Oslo}<tool_call|>", NOW + OSLO),
        ("<|tool_call>call:now{}, call:gone{}<tool_call|>",
         [*NOW, text("call:gone{}")]),
        ('<|tool_call>call:set{x:{aggs:{ip:{terms:{field:<|"|>client.keyword<|"|>,size:5}}}}}',
         sound("set", x={"aggs": {"ip": {"terms": {"field": "client.keyword", "size": 5}}}})),
        ('<|tool_call>call:set{x:{@timestamp:{gte:<|"|>now-1d<|"|>}}}<tool_call|>',
         sound("set", x={"@timestamp": {"gte": "now-1d"}})),
        ('<|tool_call>call:set{n:<|"|>5<|"|>,items:<|"|>[1]<|"|>,x:<|"|>5<|"|>}<tool_call|>',
         sound("set", n=5, items=[1], x="5")),
        ("<|tool_call>call:set{x:'a, b: {c}.pdf',n:7}<tool_call|>",
         sound("set", x="a, b: {c}.pdf", n=7)),
        ("<|tool_call>call:a:b:find{city: 'the user's house'}<tool_call|>",
         sound("find", city="the user's house")),
        ('<|tool_call>call:set(x="ok, done", n=2, items=[a b, (1, None)])<tool_call|>',
         sound("set", x="ok, done", n=2, items=["a b", [1, None]])),
        ("<|tool_call>call:now()<tool_call|>", NOW),
        (f"<|tool_call>call:find{{city:{'New ' * 125}York}}<tool_call|>so",
         [*sound("find", city="New " * 125 + "York"), text("so")]),
        ("<|tool_call>call:gone{a:1}", [text("<|tool_call>call:gone{a:1}")]),
        ("<|tool_call>now{}<tool_call|>", [text("<|tool_call>now{}<tool_call|>")]),
        ("<|tool_call>[now()]<tool_call|>", NOW),
        ("<|tool_call>ca", [text("<|tool_call>ca")]),
        ("<|tool_call>call:now{", broken("now", "{")),
        ('<|tool_call>call:find{city:<|"|>Os', broken("find", '{"city":"Os')),
        ('<|tool_call>call:find{city:<|"|>Os<|"', broken("find", '{"city":"Os')),
        ("<|tool_call>call:set{n:}<tool_call|>",
         [*broken("set", '{"n":'), text("}<tool_call|>")]),
    ],
)  # fmt: skip
def test_envelope_is_read(answer: str, parts: list[Part]) -> None:
    assert read_calls(answer, GEMMA4, GEMMA4_FALLBACK) == parts


def test_prefixed_name_that_could_be_two_functions_is_text() -> None:
    toolbox = Toolbox([Tool("pdf"), Tool("text:pdf")])
    answer = "<|tool_call>call:mcp:text:pdf{a:1}<tool_call|>"

    assert read_calls(answer, GEMMA4, toolbox=toolbox) == [text(answer)]


def test_function_gemma_has_marks_of_its_own() -> None:
    answer = (
        "<start_function_call>call:find{city:<escape>Oslo<escape>}<end_function_call>"
        "<start_function_response>"
    )

    assert read_calls(answer, FUNCTION_GEMMA) == OSLO


@cache
def templates() -> list[Template]:
    found = []
    for name, source in read_sources().items():
        if name.startswith("google-gemma-4"):
            template = ChatTemplate({"default": source}, SPECIAL_TOKENS, name)
            found.append(Template(name, template, find_traits(template)))
    return found


NAMES = st.sampled_from(["a", "b_1", "größe", "@c.d", "$ref", "e-f"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text().filter(lambda said: '<|"|>' not in said and not said.endswith(("<", "<|", '<|"'))),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=3))
def test_calls_that_the_template_writes_are_read_back(calls: list[dict[str, Any]]) -> None:
    tools = Tool("find"), Tool("set")
    turn = Message(
        "assistant",
        tool_calls=tuple(
            ToolCall(f"id{number}", "find", json.dumps(arguments))
            for number, arguments in enumerate(calls)
        ),
    )
    for each in templates():
        prompt = each.render((Message("user", "q"), turn), *tools, add_generation_prompt=False)
        answer = prompt.rpartition("<|turn>model\n")[2]

        parts = fold(read_pieces([answer], Writing(calls=(GEMMA4,)), Toolbox(tools)))

        said = [json.loads(said) for kind, said in parts if kind == "arguments"]
        assert said == calls
        assert {part for part in parts if part[0] in ("call", "end")} == {
            ("call", "find"),
            ("end", "sound"),
        }


@settings(max_examples=40, deadline=None)
@given(st.lists(PARTS | st.sampled_from(["<|tool_call>", "call:", "now{", "set{", "<tool_call|>"])))
def test_what_belongs_to_no_call_is_said(pieces: list[str]) -> None:
    answer = "".join(pieces).replace("\ud83d", "")

    parts = read_calls(answer, GEMMA4, GEMMA4_FALLBACK)

    assert parts or not answer.strip()
    if all(kind == "text" for kind, _ in parts):
        assert "".join(said for _, said in parts) == answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        "<|tool_call>" * 2_000,
        "<|tool_call>" + "call:now{}" * 2_000,
        "<|tool_call>call:set{x:" + "{a:" * 6_000,
        '<|tool_call>call:set{x:<|"|>' + "<|" * 10_000,
        "<|tool_call>call:set{x:" + "a " * 10_000,
        "<|tool_call>call:" + "a:" * 10_000,
    ],
)
def test_time_is_linear_in_the_answer(answer: str) -> None:
    form = Writing(calls=(GEMMA4, GEMMA4_FALLBACK))

    assert is_linear(lambda text: read_pieces(text, form, TOOLBOX), answer)
