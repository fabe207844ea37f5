"""A text of the form that a caller wants is read as it stands, and calls only in its place."""

import itertools
import json
from collections.abc import Iterator
from functools import cache

import pytest

from appliance.chat.request import ChatRequest, Structure, Tool
from appliance.parsing.format import CALLS, THOUGHTS, AnswerFormat, calls_beside_structure
from appliance.parsing.grammar.answer import answer_grammar
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.parsed import Text
from appliance.parsing.toolbox import Toolbox
from tests.examples import some
from tests.parsing.answer_reading import Part, fold, read_pieces
from tests.parsing.grammar.trial import judge, random_text

_PARAMETERS = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
_TOOLS = (Tool("f", parameters={"type": "object", "additionalProperties": False, **_PARAMETERS}),)
_TOOLBOX = Toolbox(_TOOLS)

_FORMS = [
    AnswerFormat(name if name in THOUGHTS else "qwen3", name, has_structure=True)
    for name in CALLS
    if name != "none"
]
_BARE = frozenset(("llama3", "xlam", "json"))
"""Formats whose calls are JSON without a mark."""
_START = "<|start|>assistant"
_BEGUN = {"functionary": ">>>", "muse": _START, "harmony": _START}
"""Marks that the prompt ends with."""
_LEADS = {
    "functionary": "all\n",
    "muse": " to=user<|message|>",
    "harmony": "<|channel|>final<|message|>",
}
"""What stands there before a text that is for the user."""

every_form = pytest.mark.parametrize("form", _FORMS, ids=lambda form: form.tools)


def _verdict(form: AnswerFormat, text: str, structure: Structure) -> str:
    grammar = answer_grammar(ChatRequest("m", tools=_TOOLS, structure=structure), form)
    assert grammar is not None
    return judge(grammar, text)


def _read(form: AnswerFormat, text: str, toolbox: Toolbox = _TOOLBOX) -> list[Part]:
    """Return what is read, once it is the same at once, by letters and cut in some places."""
    begun = _BEGUN.get(form.tools, "")
    cuts = some(range(1, len(text), len(text) // 8 + 1), text)
    ways = [list(text), *([text[:cut], text[cut:]] for cut in cuts)]
    whole = fold(read_pieces([text], form, toolbox, begun=begun))
    for way in ways:
        assert fold(read_pieces(way, form, toolbox, begun=begun)) == whole, way
    return whole


@cache
def _call(name: str, number: int = 0, *, part: str = "") -> str:
    """Return a call as the family writes it behind its prompt; some, in which a part recurs."""
    rules = Rules()
    calls = CALLS[name][number].grammar(rules, _TOOLBOX, is_single=not part)
    grammar = rules.build(calls)
    texts = (random_text(grammar, seed, most_bytes=600, haste=0.6) for seed in range(40))
    return next(text for text in texts if text and text.count(part) > 1).removeprefix(_START)


@cache
def _marks(form: AnswerFormat) -> str:
    """Return all that could be taken for something else: marks, and calls in every syntax."""

    def each() -> Iterator[str]:
        yield from form.marks()
        for number, syntax in enumerate(CALLS[form.tools]):
            for mark in (*syntax.openings(_TOOLBOX), *syntax.starts(_TOOLBOX), ""):
                yield mark + _call(form.tools, number).removeprefix(mark)

    return "\n".join(each())


def _doc(form: AnswerFormat) -> str:
    return json.dumps({"doc": _marks(form)}, ensure_ascii=False)


@every_form
def test_marks_within_a_structure_are_its_text(form: AnswerFormat) -> None:
    lead = _LEADS.get(form.tools, "")

    for text, structure in (
        (_doc(form), Structure("object")),
        (f"x\n{_marks(form)}", Structure("regex", "(?s:.*)")),
    ):
        assert _verdict(form, lead + text, structure) == "complete"
        assert _read(form, lead + text) == [("text", text)]
        assert _read(form, lead + text, Toolbox()) == [("text", text)]


@pytest.mark.parametrize("form", [each for each in _FORMS if each.tools != "functionary"])
def test_thought_ends_where_the_structure_begins(form: AnswerFormat) -> None:
    thought, text = form.thought, _doc(form)
    assert thought is not None
    said = f"I call {_call(form.tools)}."
    start, lead = (each.get(form.tools, "") for each in (_BEGUN, _LEADS))

    parts = _read(form, f"{thought.opening}{said}{thought.closing}{start}{lead}{text}")

    assert parts == [("thought", said), ("text", text)]


@every_form
def test_calls_are_read_where_the_grammar_lets_them_stand(form: AnswerFormat) -> None:
    own, is_bare = CALLS[form.tools][0], form.tools in _BARE

    verdict = _verdict(form, _call(form.tools), Structure("choice", ("no",)))
    kinds = [kind for kind, _ in _read(form, _call(form.tools))]

    assert verdict == ("refused" if is_bare else "complete")
    assert kinds == (["text"] if is_bare else ["call", "arguments", "end"])
    beginnings = () if is_bare else own.openings(_TOOLBOX) or own.starts(_TOOLBOX)
    for number in range(1, len(CALLS[form.tools])):
        text = _call(form.tools, number)
        assert text.startswith(beginnings) or _read(form, text) == [("text", text)]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("hermes", "<tool_call>"),
        ("deepseek_v3", "```json"),
        ("muse", "</atem:invoke>"),
        ("solar", "<|tool_call:name|>"),
        ("pythonic", "f("),
    ],
)
def test_more_calls_follow_a_call(name: str, part: str) -> None:
    (form,) = (form for form in _FORMS if form.tools == name)
    text = _call(name, part=part)

    kinds = [kind for kind, _ in _read(form, text)]

    assert _verdict(form, text, Structure("choice", ("no",))) == "complete"
    assert kinds == ["call", "arguments", "end"] * text.count(part)


@every_form
def test_bare_json_is_the_structure(form: AnswerFormat) -> None:
    lead = _LEADS.get(form.tools, "")
    for key in ("arguments", "parameters"):
        call = json.dumps({"name": "f", key: {"a": 1}})
        for text in (call, f"[{call}]", f"```json\n{call}\n```"):
            assert _read(form, lead + text) == [("text", text)]


@pytest.mark.parametrize("form", [each for each in _FORMS if each.tools not in _LEADS])
def test_marks_that_no_call_follows_are_text_where_they_stand(form: AnswerFormat) -> None:
    thought, own = form.thought, calls_beside_structure(form.tools)
    assert thought is not None
    behind = f"{thought.opening}t{thought.closing}"
    openings = [mark for syntax in own for mark in syntax.openings(_TOOLBOX)]
    marks = [*thought.frames, *(thought.wrapper or ()), *openings, *form.marks()]
    marks = [mark for mark in dict.fromkeys(marks) if mark != thought.opening]
    for mark, before in itertools.product(marks, ("", behind)):
        raw = f"{before}{mark}\n{mark} x\n"
        pieces = [each for each in read_pieces(list(raw), form, _TOOLBOX) if isinstance(each, Text)]
        assert "".join(each.text for each in pieces) == raw.removeprefix(before)
        assert all(raw.startswith(each.text, each.at) for each in pieces)
