"""Grammar text: what its parts allow, alone and together."""

import time
from typing import Any

import pytest

from appliance.parsing.grammar.rules import Rules
from tests.parsing.grammar.trial import judge, random_text

_WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/city"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"city": {"enum": ["Rome", "Köln"]}},
}
_CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln", "days": 3}}\n</tool_call>'


def _call_of(rules: Rules) -> str:
    """Add one call as the Hermes templates write it: an example of a family's grammar."""
    arguments = rules.json(_WEATHER)
    start = rules.text('\n{"name": "weather", "arguments": ')
    opening, closing = rules.mark("<tool_call>"), rules.mark("</tool_call>")
    return rules.rule(f"{opening} {start} {arguments} {rules.text('}' + chr(10))} {closing}")


def test_rules_make_the_grammar_of_calls_one_after_the_other() -> None:
    rules = Rules()
    call = _call_of(rules)

    grammar = rules.build(f"{call} ({rules.text(chr(10))} {call})*")

    assert grammar.marks == ("<tool_call>", "</tool_call>")
    assert judge(grammar, _CALL) == "complete"
    assert judge(grammar, f"{_CALL}\n{_CALL}") == "complete"
    assert judge(grammar, _CALL[:-3]) == "incomplete"
    assert judge(grammar, _CALL.replace("Köln", "Oslo")) == "refused"
    assert judge(grammar, "It rains.") == "refused"


def test_rules_let_text_stand_before_a_call() -> None:
    rules = Rules()
    _call_of(rules)
    body = rules.json(_WEATHER)
    found = rules.rule(f"{rules.until('<tool_call>')} {body} {rules.mark('</tool_call>')}")

    grammar = rules.build(f"{found}* {rules.regex('(?s:.*)')}")

    assert judge(grammar, "It rains.") == "complete"
    assert judge(grammar, 'Wait <tool_call>{"city": "Rome"}</tool_call>') == "complete"
    assert judge(grammar, 'Wait <tool_call>{"city": "Rome"') != "complete"


@pytest.mark.parametrize(
    "text", ["", '"', "\\", "\n\t\0\x7f", "/", "//", "#x", "é😀", "%json", "a|b", "</s>", "i"]
)
def test_text_stands_for_itself_alone(text: str) -> None:
    rules = Rules()

    grammar = rules.build(f"{rules.text(text)} {rules.text('.')}")

    assert judge(grammar, f"{text}.") == "complete"
    assert judge(grammar, f"{text},") == "refused"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a/b", "a/b"),
        (r"a\/b", "a/b"),
        (r"\d+", "17"),
        ("", ""),
        ("[/#]", "#"),
        ("x\ny", "x\ny"),
        ('"', '"'),
        (r"\\", "\\"),
    ],
)
def test_regex_matches_all_of_a_text(pattern: str, text: str) -> None:
    rules = Rules()

    grammar = rules.build(f"{rules.regex(pattern)} {rules.text('.')}")

    assert judge(grammar, f"{text}.") == "complete"
    assert judge(grammar, f"{text}{text or '?'}x") == "refused"


def test_json_refers_to_the_definitions_of_its_root() -> None:
    rules = Rules()

    grammar = rules.build(rules.json(_WEATHER["properties"]["city"], _WEATHER))

    assert judge(grammar, '"Rome"') == "complete"
    assert judge(grammar, '"Bonn"') == "refused"


def test_json_may_be_anything_or_have_a_space_behind_a_comma() -> None:
    rules = Rules()

    grammar = rules.build(rules.json(True))

    assert judge(grammar, '{"a": [1,2, null], "b":"c"}') == "complete"
    assert judge(grammar, '{ "a": 1}') == "refused"
    assert judge(grammar, '{"a":  1}') == "refused"
    assert judge(grammar, r'{"\u0061": 1}') == "refused"


def test_equal_rules_are_one() -> None:
    rules = Rules()

    assert rules.json(_WEATHER) == rules.json(_WEATHER) != rules.json(True)


def test_lark_has_names_of_its_own() -> None:
    rules = Rules()
    other = rules.rule(rules.text("a"))
    nested = rules.lark(f'start: {other}{{2}} // twice\n{other}: "b"')

    grammar = rules.build(f"{other} {nested} {other}")

    assert judge(grammar, "abba") == "complete"


def test_random_text_is_one_that_the_grammar_allows() -> None:
    rules = Rules()
    grammar = rules.build(_call_of(rules))

    texts = [random_text(grammar, seed) for seed in range(5)]

    assert all(text is not None and judge(grammar, text) == "complete" for text in texts)


def test_text_before_a_call_has_no_other_mark() -> None:
    rules = Rules()
    call = rules.rule(f"{rules.mark('<call>')} {rules.text('f')}")
    led = rules.after_text(call, ["<call>"])

    grammar = rules.build(f"{led} {rules.regex('(?s:.*)')}", ["<call>", "<other>"])

    assert judge(grammar, "I look. <call>f") == "complete"
    assert judge(grammar, "I < look. <call>f <other>") == "complete"
    assert judge(grammar, "I look. <other> <call>f") == "refused"


def test_text_without_marks_may_hold_their_beginnings() -> None:
    rules = Rules()

    grammar = rules.build(rules.text_without(["<call>", "<call>f", "<|x"], ["{", "["]))

    for text in ("", "It < rains.", "<call <|", 'a {"b": [1]}'):
        assert judge(grammar, text) == "complete"
    for text in ("It <call>", "\n<|x", " {", "\n["):
        assert judge(grammar, text) == "refused"


def test_text_before_calls_is_found_whatever_their_names_are() -> None:
    rules = Rules()
    names = ["a | b", 'c"d', '"e | f', "g\\"]
    calls = " | ".join(f"{rules.mark('<call>')} {rules.text(name)}" for name in names)
    led = rules.after_text(rules.rule(calls), ["<call>"])

    grammar = rules.build(led, ["<call>"])

    assert {judge(grammar, f"I look. <call>{name}") for name in names} == {"complete"}
    assert judge(grammar, "I look. <call>a") == "incomplete"


def test_text_before_many_calls_is_found_in_time() -> None:
    rules = Rules()
    call = rules.rule(" | ".join(f'{rules.mark("<call>")} "{number}"' for number in range(4000)))
    begin = time.thread_time()

    rules.after_text(call, ["<call>"])

    assert time.thread_time() - begin < 0.5
