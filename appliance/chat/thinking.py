"""Say in a chat template's own variables how much a caller wants the model to think. Pure."""

import re
from typing import Any

from appliance.chat.request import Thinking
from appliance.chat.traits import EFFORTS, Traits
from appliance.errors import InvalidRequest

_NO_EFFORT = "none"
_USUAL_SWITCHES = ("enable_thinking", "thinking")
_USUAL_EFFORT = "reasoning_effort"
_BUDGET = "thinking_budget"
"""What a template calls the most tokens of thought, where it tells the model of them."""


def wants_no_thought(thinking: Thinking) -> bool:
    """Say whether thoughts are not wanted, whatever words say so."""
    if thinking.budget == 0:
        return True
    is_off = thinking.is_enabled is None and thinking.effort == _NO_EFFORT
    return is_off or thinking.is_enabled is False


def template_values(values: dict[str, Any], traits: Traits) -> dict[str, Any]:
    """Return values for the template, and in its own variables what they say of thoughts.

    That is for names that other templates have for the switch and the effort, and this one does
    not read.
    """
    unread = {
        name: value
        for name, value in values.items()
        if name in (*_USUAL_SWITCHES, _USUAL_EFFORT)
        and re.search(rf"\b{name}\b", traits.template) is None
    }
    switches = [unread[name] for name in _USUAL_SWITCHES if isinstance(unread.get(name), bool)]
    effort = unread.get(_USUAL_EFFORT)
    wish = Thinking(
        is_enabled=switches[0] if switches else None,
        effort=effort if effort in (_NO_EFFORT, *EFFORTS) else None,
        is_firm=False,
    )
    return thinking_values(wish, traits) | values


def thinking_values(thinking: Thinking, traits: Traits) -> dict[str, Any]:
    """Return values for the template's variables; none if there is no wish.

    An effort of `none` means no thoughts, any other means thoughts; the template gets the nearest
    of the words that it knows, and where it knows none its switch. A budget of 0 means no thoughts,
    any other is told where the template has a place for it. Raises InvalidRequest, which
    names the wish's field, for a firm one that the template cannot grant; thoughts that a model
    without any is asked for are no error, nor is a budget of 0 where nothing switches them off: it
    is kept to another way.
    """
    effort = thinking.effort
    if effort is not None:
        _check_effort(effort, thinking, traits)
    if wants_no_thought(thinking):
        return _off(thinking, traits)
    values: dict[str, Any] = {}
    has_wish = thinking.is_enabled is not None or effort is not None
    if has_wish and traits.thinking_variable is not None:
        values[traits.thinking_variable] = traits.thinking_on
    if effort is not None and effort != _NO_EFFORT:
        values |= _effort(effort, thinking, traits)
    if thinking.budget is not None and traits.thinking_variable == _BUDGET:
        values[_BUDGET] = thinking.budget
    return values


def _check_effort(effort: str, thinking: Thinking, traits: Traits) -> None:
    known = (_NO_EFFORT, *EFFORTS)
    if effort not in known and effort not in traits.efforts:
        words = ", ".join(known)
        raise InvalidRequest(f"{thinking.param} should be one of {words}.", param=thinking.param)


def _off(thinking: Thinking, traits: Traits) -> dict[str, Any]:
    if traits.thinking_variable is not None:
        return {traits.thinking_variable: traits.thinking_off}
    if traits.thinks and thinking.is_firm and thinking.budget != 0:
        reason = f"{thinking.param}: the model's chat template cannot switch thoughts off."
        raise InvalidRequest(reason, param=thinking.param)
    return {}


def _effort(effort: str, thinking: Thinking, traits: Traits) -> dict[str, Any]:
    if traits.effort_variable is not None:
        return {traits.effort_variable: _nearest(effort, traits.efforts)}
    if traits.thinking_variable is None and thinking.is_firm:
        reason = f"{thinking.param}: the model's chat template knows no effort of thought."
        raise InvalidRequest(reason, param=thinking.param)
    return {}


def _nearest(effort: str, known: tuple[str, ...]) -> str:
    """Return the known word nearest to `effort`; of two the one that means more thought."""
    if effort in known:
        return effort
    wanted = EFFORTS.index(effort)
    return min(known, key=lambda word: (abs(EFFORTS.index(word) - wanted), -EFFORTS.index(word)))
