"""What a strict answer may say is never read as a call that its tool does not allow."""

import json
from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from appliance.chat.request import ChatRequest, Tool
from appliance.parsing.format import CALLS, THOUGHTS, AnswerFormat
from appliance.parsing.grammar.answer import answer_grammar, bound_form
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox
from tests.examples import some
from tests.parsing.grammar.trial import matcher_of, random_text
from tests.parsing.proof.reading import Heard, hear


def _tool(key: str) -> Tool:
    schema = {"properties": {key: {"const": 1}}, "required": [key], "additionalProperties": False}
    return Tool("f", parameters={"type": "object", **schema}, strict=True)


_RIGHT = _tool("a")
_REQUEST = ChatRequest("m", tools=(_RIGHT,))
_FRAMED = ("harmony", "muse", "solar")
"""Formats whose marks are those of their thoughts, too."""
_BEGUN = {"functionary": ">>>", "muse": "<|start|>assistant"}
"""Marks that the prompt ends with, unless the answer begins with them."""
_SPEECH = {
    "functionary": "all\n",
    "harmony": "<|channel|>final<|message|>",
    "muse": " to=user<|message|>",
}
"""What stands before a text."""
_FORMATS = [
    AnswerFormat(name if name in _FRAMED else "qwen3", name) for name in CALLS if name != "none"
]
_BARE = ("llama3", "pythonic", "xlam", "json")
"""Formats whose calls have no opening."""
_LOOSE = (
    '{"name": "f", "arguments": {"zzz": 1}}',
    '{"parameters": {"zzz": 1}, "name": "f"}',
    '[{"name": "f", "arguments": {"zzz": 1}}]',
    '```json\n{"name": "f", "parameters": {"zzz": 1}}\n```',
    "[f(zzz=1)]",
    "f<arg_key>zzz</arg_key><arg_value>1</arg_value></tool_call>",
    'f[ARGS]{"zzz": 1}',
    'f[CALL_ID]abcdefghi[ARGS]{"zzz": 1}',
    'functions.f:0<|tool_call_argument_begin|>{"zzz": 1}<|tool_call_end|>',
    "<function=f><parameter=zzz>1</parameter></function>",
    ' to=f<|message|>{"zzz": 1}',
)
"""Calls as models write them that forget the marks of their families."""


@cache
def _written(tools: str, key: str, number: int = 0) -> str:
    """Return one call, in the first way of a format or a later one, behind the prompt's end."""
    rules = Rules()
    grammar = rules.build(
        CALLS[tools][number].grammar(rules, Toolbox([_tool(key)]), is_single=True)
    )
    texts = (random_text(grammar, seed, most_bytes=600) for seed in range(20))
    return next(filter(None, texts)).removeprefix("<|start|>assistant")


def _wrong_calls(form: AnswerFormat) -> Iterator[str]:
    """Yield calls that the tool does not allow, in all ways that the format reads."""
    yield from _LOOSE
    for number, syntax in enumerate(CALLS[form.tools]):
        text = _written(form.tools, "zzz", number)
        yield text
        for opening in syntax.openings(Toolbox([_RIGHT])):
            _, found, rest = text.partition(opening)
            if found:
                yield opening + rest
                yield rest.lstrip()


def _answers(form: AnswerFormat) -> Iterator[str]:
    """Yield answers that have such a call in some place."""
    right = _written(form.tools, "a")
    speech = _SPEECH.get(form.tools, "")
    for wrong in _wrong_calls(form):
        yield from (wrong, speech + wrong, f"{speech}I look.\n{wrong}")
        yield from (right + wrong, f"{right}\n{wrong}", f"{right}}}, {wrong}")
        yield from (f"{right} And {wrong}", f"{wrong} {right}", f"I look. {wrong}\n{right}")
        yield from (f"<think>No.</think>{wrong}", f"{speech}Hm.\n<think>No.</think>{wrong}")


def _read(form: AnswerFormat, text: str) -> Heard:
    begun = _BEGUN.get(form.tools, "")
    begun = "" if text.startswith(begun) else begun
    parser = AnswerParser(bound_form(form, _REQUEST), Toolbox([_RIGHT]), begun=begun)
    return hear(parser, [text])


def _is_wrong(heard: Heard) -> bool:
    """Say whether there is a call that is not exactly the one that the tool allows."""
    return not heard.is_sound or any(json.loads(text) != {"a": 1} for _, text in heard.calls)


class _Judge:
    """Says what the grammar of an answer allows."""

    def __init__(self, form: AnswerFormat, *, is_single: bool = False) -> None:
        request = replace(_REQUEST, allows_parallel_calls=not is_single)
        grammar = answer_grammar(request, form)
        assert grammar is not None
        self._matcher = matcher_of(grammar)

    def allows(self, text: str) -> bool:
        self._matcher.reset()
        tokens = list(text.encode())
        return self._matcher.try_consume_tokens(tokens) == len(tokens) and bool(
            self._matcher.is_accepting()
        )


@pytest.mark.parametrize("form", _FORMATS, ids=lambda form: form.tools)
def test_no_strict_answer_is_read_as_a_wrong_call(form: AnswerFormat) -> None:
    judge = _Judge(form)

    answers = some(list(_answers(form)), form.tools)
    wrong = [text for text in answers if _is_wrong(_read(form, text)) and judge.allows(text)]

    assert wrong == []


@pytest.mark.parametrize("form", _FORMATS, ids=lambda form: form.tools)
def test_no_strict_answer_behind_a_thought_is_read_as_a_wrong_call(form: AnswerFormat) -> None:
    judge, speech, thought = _Judge(form), _SPEECH.get(form.tools, ""), form.thought
    assert thought is not None
    answers = [lead + wrong for wrong in _wrong_calls(form) for lead in {"", speech}]
    before = f"{thought.opening}Hm.{thought.closing}"

    wrong = [text for text in answers if _is_wrong(_read(form, before + text))]

    assert not any(map(judge.allows, wrong))


@pytest.mark.parametrize("reasoning", [name for name, thought in THOUGHTS.items() if thought])
@pytest.mark.parametrize("tools", _BARE)
def test_no_mark_hides_a_bare_call(tools: str, reasoning: str) -> None:
    form, thought = AnswerFormat(reasoning, tools), THOUGHTS[reasoning]
    assert thought is not None
    again = f"{thought.opening}No.{thought.closing}"
    left_out = (again, f"Hm.\n{again}", *thought.frames, *(thought.wrapper or ())[:1])
    wrong = _written(tools, "zzz")
    judge = _Judge(form)

    for lead in ("", *thought.answer_opening):
        texts = (wrong, *(mark + wrong for mark in left_out))
        assert not any(
            judge.allows(f"{lead}{text}")
            for text in texts
            if _is_wrong(_read(form, f"{lead}{text}"))
        )
    assert judge.allows(f"{''.join(thought.answer_opening)}It rains.")


@pytest.mark.parametrize("tools", ["harmony", "muse", "minimax_m2", "solar"])
def test_thought_that_no_grammar_bounds_has_no_calls(tools: str) -> None:
    form = next(each for each in _FORMATS if each.tools == tools)
    thought, wrong = form.thought, _written(tools, "zzz")
    assert thought is not None

    heard = _read(form, f"{thought.opening}Hm. {wrong}{thought.closing}")

    assert (heard.calls, heard.thought) == ([], f"Hm. {wrong}")


@pytest.mark.parametrize("form", _FORMATS, ids=lambda form: form.tools)
def test_strict_answer_is_a_right_call_or_any_other_text(form: AnswerFormat) -> None:
    own, judge, speech = CALLS[form.tools][0], _Judge(form), _SPEECH.get(form.tools, "")
    right = _written(form.tools, "a")
    texts, calls = ["f is {}, [1] or <b>.", "It rains.\n"], [(right, 1)]
    if own.text_opening is None:
        foreign = [text for text in _LOOSE if not any(map(text.count, own.openings(Toolbox())))]
        texts += ["", "f", '{"a": 1}', "```json\n[1]\n```", *foreign]
        calls += [(f"I look.\n{right}", 1), (f"{right} And so on.", 1)]
        calls += [(f"{right} And {right}", 2)] if own.closings else []

    for text in texts:
        assert judge.allows(speech + text)
        assert (heard := _read(form, speech + text)).calls == []
        assert "".join(heard.texts) == text
    for text, num_calls in calls:
        assert judge.allows(text)
        assert [json.loads(each) for _, each in _read(form, text).calls] == [{"a": 1}] * num_calls


@pytest.mark.parametrize("tools", ["hermes", "mistral"])
def test_strict_answer_has_one_call_without_parallel_calls(tools: str) -> None:
    judge = _Judge(AnswerFormat("qwen3", tools), is_single=True)
    right = _written(tools, "a")

    assert judge.allows("It rains.")
    assert judge.allows(f"I look. {right} And so on.")
    assert not judge.allows(right + right)
