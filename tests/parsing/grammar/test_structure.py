"""The form that a caller gives an answer: what it allows, and how bad ones are refused."""

from typing import Any, Literal

import pytest

from appliance.chat.grammar import Grammar
from appliance.chat.request import Structure
from appliance.errors import InvalidRequest
from appliance.parsing.grammar.check import check_grammar
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.grammar.structure import structure_rule
from tests.parsing.grammar.trial import judge

Kind = Literal["schema", "object", "regex", "choice", "grammar"]

_SUM = """
root ::= term ("+" term)*   # a sum
term ::= [0-9]+ | "x" | "(" root ")"
"""


def _grammar_of(kind: Kind, value: Any) -> Grammar:  # noqa: ANN401 - as the kind says
    """Return the grammar of a form between two brackets, to see where it ends."""
    rules = Rules()
    form = structure_rule(rules, Structure(kind, value, param="here"))
    grammar = rules.build(f"{rules.text('<')} {form} {rules.text('>')}")
    check_grammar(grammar)
    return grammar


@pytest.mark.parametrize(
    ("kind", "value", "texts", "others"),
    [
        ("schema", {"type": "boolean"}, ["true"], ["1"]),
        ("object", None, ["{}", '{"a": [{"b": null}]}'], ["[]", "{} ", "1"]),
        ("regex", r"\d{2}|a/b", ["17", "a/b"], ["1", "a", "٣٤"]),
        ("regex", "^ab*$", ["a", "abb"], ["b"]),
        ("choice", ("a", "ab", 'say "hi"\n'), ["a", "ab", 'say "hi"\n'], ["", "abc"]),
        ("choice", ["ja", "ja", "日本"], ["ja", "日本"], ["nein"]),
        ("grammar", 'start: A+ | "<b>"\nA: "a"', ["a", "aa", "<b>"], ["b"]),
        ("grammar", "%import common.INT\nstart: INT", ["42"], ["x"]),
        ("grammar", '%ignore / /\nstart: "a" "b"', ["ab", "a  b"], ["ba"]),
        ("grammar", 'start: rule_0 mark_0\nrule_0: "1"\nmark_0: "2"', ["12"], ["1"]),
        ("grammar", 'start: %json {"properties": {}} "!"', ["{}!"], ['{"a": 1}!', "{ }!"]),
        ("grammar", 'start: "a" // see <x>, @y, %json\n', ["a"], ["b"]),
        ("grammar", _SUM, ["1+x", "(1+2)+3"], ["+", "1+"]),
    ],
)
def test_form_allows_its_texts_alone(
    kind: Kind, value: object, texts: list[str], others: list[str]
) -> None:
    grammar = _grammar_of(kind, value)

    assert [judge(grammar, f"<{text}>") for text in texts] == ["complete"] * len(texts)
    assert "complete" not in [judge(grammar, f"<{text}>") for text in others]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("schema", {"uniqueItems": True}, "'uniqueItems' at #"),
        ("regex", "", "not empty"),
        ("regex", 5, "text"),
        ("regex", "a(", "unclosed group"),
        ("regex", "(?=a)", "look-around"),
        ("regex", r"\ba", "lookarounds"),
        ("regex", "[a&&b]", "no text"),
        ("regex", "a" * 9_000, "more than 8000"),
        ("choice", (), "at least one"),
        ("choice", "abc", "at least one"),
        ("choice", ("a", ""), "not empty"),
        ("choice", ("a", 1), "text"),
        ("choice", ("a" * 40_000, "b" * 30_000), "more than 64000"),
        ("grammar", " ", "not empty"),
        ("grammar", "nonsense", "line 1"),
        ("grammar", 'start: "a"\nb: foo "\n', "line 2"),
        ("grammar", "start: foo", "line 1: unknown name"),
        ("grammar", 'start: "a" }\nmark_0: { "b"', "line 1"),
        ("grammar", 'start: "a"\n  | <|im_end|>', "line 2: '<|im_end|>'"),
        ("grammar", "start: <[7]>", "cannot be used"),
        ("grammar", "start: @other", "cannot be used"),
        ("grammar", 'start: x "b"\nx[stop="b"]: /.*/', "line 2: 'stop='"),
        ("grammar", 'start: x "b"\nx[max_tokens=3]: /.*/', "line 2"),
        ("grammar", "start: start", "no text"),
        ("grammar", 'start: %json {"not": {}}', "'not' at #"),
        ("grammar", "start: %json {", "line 1"),
        ("grammar", "%import foo.BAR\nstart: BAR", "line 1"),
        ("grammar", "".join(f'r{at}: "a" r{at + 1}\n' for at in range(700)), "600 rules"),
        ("grammar", "start: " + '"a"? ' * 700, "600 rules"),
        ("grammar", "start: T\nT: " + " & ".join(["/a/"] * 10), "8 '&'"),
        ("grammar", 'start: T\nT: ("a"{1000}){1000}', "too many"),
        ("regex", "(a{1000}){1000}", "too many"),
        ("grammar", 'root ::= foo "a"', "foo"),
        ("grammar", 'root ::= "a" (', "line 1"),
        ("grammar", "root ::= " + "(" * 5000, "nested too deeply"),
    ],
)
def test_form_that_cannot_be_is_refused_in_one_line(kind: Kind, value: object, reason: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        _grammar_of(kind, value)

    message = str(refused.value)
    assert refused.value.param == "here"
    assert reason in message
    assert len(message) <= 300 and "\n" not in message


def test_grammar_that_no_engine_can_follow_names_the_field() -> None:
    with pytest.raises(InvalidRequest, match="no text") as refused:
        check_grammar(Grammar("start: start"), "tools")

    assert refused.value.param == "tools"
