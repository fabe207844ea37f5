"""Calls that a model is bound to write are read back as calls, in every family's own syntax."""

import itertools
import json
import re

import jsonschema
import pytest

from appliance.chat.grammar import Grammar
from appliance.chat.request import ChatRequest, Tool, ToolChoice
from appliance.parsing.format import CALLS, AnswerFormat
from appliance.parsing.grammar.answer import answer_grammar
from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox
from tests.examples import examples
from tests.parsing.grammar.trial import judge, random_text
from tests.parsing.proof.reading import hear

_DEGREES = {"type": "number", "minimum": -90, "maximum": 90}
_PLACE = {
    "type": "object",
    "properties": {
        "stadt": {"type": "string", "enum": ["Köln", "São Paulo", '"A" & <b>']},
        "tags": {"type": "array", "items": {"enum": ["x", None, 1.5]}, "maxItems": 2},
        "ort": {
            "type": "object",
            "properties": {"lat": _DEGREES, "note": {"type": "string", "maxLength": 9}},
            "required": ["lat"],
        },
        "is_new": {"type": "boolean"},
    },
    "required": ["stadt", "is_new"],
}
_TOOLS = (
    Tool("place", parameters=_PLACE),
    Tool("place_of", parameters={"type": "object", "properties": {"of": {"type": "integer"}}}),
    Tool("now"),
    Tool("say", parameters={"properties": {"text": {"type": "string"}}, "required": ["text"]}),
)
_VALIDATORS = {
    tool.name: jsonschema.Draft202012Validator(tool.parameters or {"maxProperties": 0})
    for tool in _TOOLS
}
_FRAMED = ("harmony", "muse", "solar")
"""Formats whose marks are those of their thoughts, too."""
_BEGUN = {"functionary": ">>>", "muse": "<|start|>assistant"}
"""Marks that the prompt ends with, unless the answer begins with them."""
_FORMATS = [
    AnswerFormat(name if name in _FRAMED else "none", name) for name in CALLS if name != "none"
]


def _grammar(form: AnswerFormat, choice: ToolChoice, *, is_single: bool = False) -> Grammar:
    request = ChatRequest(
        "m", tools=_TOOLS, tool_choice=choice, allows_parallel_calls=not is_single
    )
    grammar = answer_grammar(request, form)
    assert grammar is not None
    return grammar


def _calls_in(form: AnswerFormat, text: str) -> list[tuple[str, object]]:
    """Return the calls of an answer that is nothing but sound calls; with valid arguments."""
    begun = _BEGUN.get(form.tools, "")
    begun = "" if text.startswith(begun) else begun
    heard = hear(AnswerParser(form, Toolbox(_TOOLS), begun=begun), [text])
    assert heard.is_sound and heard.calls and not "".join(heard.texts).strip(), (text, heard)
    for name, arguments in heard.calls:
        _VALIDATORS[name].validate(json.loads(arguments))
    return [(name, json.loads(arguments)) for name, arguments in heard.calls]


def _closings(grammar: Grammar) -> tuple[str, ...]:
    """Return the marks that may end a text that is free."""
    ending = {int(number) for number in re.findall(r"until_(\d+)", grammar.lark)}
    marks = enumerate(grammar.marks)
    return tuple(mark for at, mark in marks if at in ending or mark.startswith("</"))


def _some_texts(grammar: Grammar, wanted: int) -> list[str]:
    """Return the first random texts that came to an end."""
    closings = _closings(grammar)
    made = (random_text(grammar, seed, most_bytes=1500, closings=closings) for seed in range(20))
    texts = list(itertools.islice(filter(None, made), wanted))
    assert len(texts) == wanted
    return texts


@pytest.mark.parametrize("form", _FORMATS, ids=lambda form: form.tools)
def test_demanded_calls_are_read_back(form: AnswerFormat) -> None:
    grammar = _grammar(form, ToolChoice("required"))

    calls = [_calls_in(form, text) for text in _some_texts(grammar, examples(3))]

    assert all(calls)
    assert judge(grammar, "It rains.") == "refused"


@pytest.mark.parametrize("form", _FORMATS, ids=lambda form: form.tools)
def test_named_call_is_one_of_that_name(form: AnswerFormat) -> None:
    grammar = _grammar(form, ToolChoice("named", "place"))

    (text,) = _some_texts(grammar, 1)

    assert [name for name, _ in _calls_in(form, text)] == ["place"]


@pytest.mark.parametrize("form", _FORMATS, ids=lambda form: form.tools)
def test_single_call_is_one(form: AnswerFormat) -> None:
    grammar = _grammar(form, ToolChoice("required"), is_single=True)

    (text,) = _some_texts(grammar, 1)

    assert len(_calls_in(form, text)) == 1
