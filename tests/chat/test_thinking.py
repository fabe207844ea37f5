from typing import Any

import pytest
from msgspec.structs import replace

from appliance.chat.request import Thinking
from appliance.chat.thinking import template_values, thinking_values, wants_no_thought
from appliance.chat.traits import Traits
from appliance.errors import InvalidRequest

NEVER = Traits()
ALWAYS = Traits(thinks=True)
SWITCHED = Traits(thinks=True, thinking_variable="think")
GRADED = Traits(thinks=True, effort_variable="effort", efforts=("low", "medium", "high"))
BOTH = Traits(
    thinks=True, thinking_variable="think", effort_variable="effort", efforts=("low", "high", "max")
)
ONE = Traits(
    thinks=True,
    thinking_variable="effort",
    thinking_on="high",
    thinking_off="no_think",
    effort_variable="effort",
    efforts=("low", "high"),
)
BUDGETED = Traits(thinks=True, thinking_variable="thinking_budget", thinking_on=-1, thinking_off=0)
OWN_WORDS = Traits("{{ think }} {{ effort }}", thinking_variable="think", effort_variable="effort")
GRADED_WORDS = replace(OWN_WORDS, efforts=("low", "high"))


@pytest.mark.parametrize(
    ("traits", "thinking", "expected"),
    [
        (SWITCHED, Thinking(), {}),
        (SWITCHED, Thinking(is_enabled=True), {"think": True}),
        (SWITCHED, Thinking(is_enabled=False), {"think": False}),
        (SWITCHED, Thinking(effort="none"), {"think": False}),
        (SWITCHED, Thinking(effort="low"), {"think": True}),
        (SWITCHED, Thinking(is_enabled=False, effort="high"), {"think": False}),
        (SWITCHED, Thinking(is_enabled=True, effort="none"), {"think": True}),
        (NEVER, Thinking(is_enabled=True), {}),
        (NEVER, Thinking(is_enabled=False), {}),
        (NEVER, Thinking(effort="none"), {}),
        (ALWAYS, Thinking(is_enabled=True), {}),
        (GRADED, Thinking(is_enabled=True), {}),
        (GRADED, Thinking(effort="medium"), {"effort": "medium"}),
        (GRADED, Thinking(effort="minimal"), {"effort": "low"}),
        (GRADED, Thinking(effort="xhigh"), {"effort": "high"}),
        (BOTH, Thinking(effort="medium"), {"think": True, "effort": "high"}),
        (BOTH, Thinking(effort="xhigh"), {"think": True, "effort": "max"}),
        (BOTH, Thinking(effort="none"), {"think": False}),
        (ONE, Thinking(effort="low"), {"effort": "low"}),
        (ONE, Thinking(is_enabled=True), {"effort": "high"}),
        (ONE, Thinking(effort="none"), {"effort": "no_think"}),
        (SWITCHED, Thinking(budget=0), {"think": False}),
        (SWITCHED, Thinking(is_enabled=True, effort="high", budget=0), {"think": False}),
        (SWITCHED, Thinking(budget=9), {}),
        (SWITCHED, Thinking(is_enabled=True, budget=9), {"think": True}),
        (ALWAYS, Thinking(budget=0), {}),
        (GRADED, Thinking(budget=0), {}),
        (BUDGETED, Thinking(budget=512), {"thinking_budget": 512}),
        (BUDGETED, Thinking(is_enabled=True), {"thinking_budget": -1}),
        (BUDGETED, Thinking(effort="low", budget=512), {"thinking_budget": 512}),
        (BUDGETED, Thinking(budget=0), {"thinking_budget": 0}),
        (BUDGETED, Thinking(is_enabled=False, budget=9), {"thinking_budget": 0}),
    ],
)
def test_wish_is_said_in_the_templates_own_variables(
    traits: Traits, thinking: Thinking, expected: dict[str, Any]
) -> None:
    assert thinking_values(thinking, traits) == expected


@pytest.mark.parametrize(
    ("traits", "thinking"),
    [
        pytest.param(ALWAYS, Thinking(is_enabled=False), id="cannot be switched off"),
        pytest.param(GRADED, Thinking(effort="none"), id="has no word for none"),
        pytest.param(ALWAYS, Thinking(effort="high"), id="knows no effort"),
        pytest.param(NEVER, Thinking(effort="high"), id="never thinks"),
        pytest.param(GRADED, Thinking(effort="some"), id="no such word"),
    ],
)
@pytest.mark.parametrize("param", ["reasoning_effort", "thinking"])
def test_wish_that_cannot_be_granted_is_refused_by_its_name(
    traits: Traits, thinking: Thinking, param: str
) -> None:
    wish = Thinking(thinking.is_enabled, thinking.effort, param=param)

    with pytest.raises(InvalidRequest, match=param) as caught:
        thinking_values(wish, traits)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("traits", "thinking"), [(ALWAYS, Thinking(False)), (NEVER, Thinking(effort="high"))]
)
def test_wish_that_is_not_firm_is_left_out(traits: Traits, thinking: Thinking) -> None:
    wish = Thinking(thinking.is_enabled, thinking.effort, is_firm=False)

    assert thinking_values(wish, traits) == {}


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (Thinking(), False),
        (Thinking(is_enabled=True), False),
        (Thinking(effort="low"), False),
        (Thinking(is_enabled=True, effort="none"), False),
        (Thinking(budget=1), False),
        (Thinking(is_enabled=False), True),
        (Thinking(effort="none"), True),
        (Thinking(is_enabled=False, effort="high"), True),
        (Thinking(is_enabled=True, budget=0), True),
    ],
)
def test_wish_for_no_thoughts_is_seen(thinking: Thinking, *, expected: bool) -> None:
    assert wants_no_thought(thinking) is expected


@pytest.mark.parametrize(
    ("values", "further"),
    [
        ({}, {}),
        ({"mood": "calm", "think": False}, {}),
        ({"enable_thinking": False}, {"think": False}),
        ({"thinking": True}, {"think": True}),
        ({"enable_thinking": False, "think": True}, {}),
        ({"enable_thinking": "no", "reasoning_effort": 5}, {}),
        ({"reasoning_effort": "medium"}, {"think": True, "effort": "high"}),
        ({"reasoning_effort": "none"}, {"think": False}),
        ({"reasoning_effort": "odd"}, {}),
    ],
)
def test_values_under_other_templates_names_are_said_in_this_ones(
    values: dict[str, Any], further: dict[str, Any]
) -> None:
    assert template_values(values, GRADED_WORDS) == further | values


def test_values_that_the_template_reads_are_left_as_they_are() -> None:
    both = replace(GRADED_WORDS, template="{{ enable_thinking }} {{ think }}")

    assert template_values({"enable_thinking": False}, both) == {"enable_thinking": False}
