"""Every word for how much to think does something sensible on every real template."""

from typing import Any

import pytest

from appliance.chat.request import Message, Thinking
from appliance.chat.thinking import template_values, thinking_values
from appliance.errors import InvalidRequest
from tests.chat.gallery import Template, read_gallery

pytestmark = [pytest.mark.registry, pytest.mark.timeout(300)]

ASK = (Message("user", "Why is the sky blue?"),)
WORDS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@pytest.fixture(scope="module")
def gallery() -> list[Template]:
    return read_gallery()


def prompt(each: Template, thinking: Thinking) -> str | None:
    """Return the prompt with a wish; None if the wish is refused."""
    try:
        values = thinking_values(thinking, each.traits)
    except InvalidRequest:
        return None
    return each.render(ASK, **values)


def efforts(each: Template) -> dict[str, str | None]:
    return {word: prompt(each, Thinking(effort=word)) for word in WORDS}


def test_silent_request_leaves_all_to_the_template(gallery: list[Template]) -> None:
    for each in gallery:
        assert thinking_values(Thinking(), each.traits) == {}


def test_none_is_said_by_the_switch_and_refused_where_there_is_none(
    gallery: list[Template],
) -> None:
    for each in gallery:
        found, traits = efforts(each), each.traits
        if traits.thinking_variable is not None:
            assert found["none"] == prompt(each, Thinking(is_enabled=False))
            assert found["none"] != prompt(each, Thinking(is_enabled=True)), each.name
        else:
            assert (found["none"] is None) == traits.thinks, each.name


def test_more_effort_is_never_less_thought(gallery: list[Template]) -> None:
    graded = [each for each in gallery if each.traits.effort_variable is not None]
    for each in graded:
        found, known = efforts(each), each.traits.efforts
        used = [thinking_values(Thinking(effort=word), each.traits) for word in WORDS[1:]]
        places = [known.index(values[each.traits.effort_variable or ""]) for values in used]
        assert places == sorted(places), each.name
        assert found["low"] != found["max"], each.name

    assert len(graded) >= 6


def test_effort_switches_thoughts_on_where_that_is_all_there_is(gallery: list[Template]) -> None:
    switched = [
        each
        for each in gallery
        if each.traits.thinking_variable is not None and each.traits.effort_variable is None
    ]
    for each in switched:
        found = efforts(each)
        assert {found[word] for word in WORDS[1:]} == {prompt(each, Thinking(is_enabled=True))}

    assert len(switched) >= 25


@pytest.mark.parametrize("values", [{"enable_thinking": False}, {"thinking": False}])
def test_switch_works_under_the_usual_names_on_every_template_that_has_one(
    gallery: list[Template], values: dict[str, Any]
) -> None:
    for each in gallery:
        if each.traits.thinking_variable is None:
            continue
        said = each.render(ASK, **template_values(values, each.traits))
        is_another = any(
            name in each.traits.template and name != each.traits.thinking_variable
            for name in values
        )
        assert is_another or said == prompt(each, Thinking(is_enabled=False)), each.name


def test_budget_is_told_where_the_template_tells_the_model(gallery: list[Template]) -> None:
    seed = next(each for each in gallery if each.name == "ByteDance-Seed-OSS")

    assert "within 512 tokens" in (prompt(seed, Thinking(budget=512)) or "")
    assert prompt(seed, Thinking(budget=0)) == prompt(seed, Thinking(is_enabled=False))
