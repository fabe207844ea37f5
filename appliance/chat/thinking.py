"""Say in a chat template's own variables how much a caller wants the model to think. Pure."""

from typing import Any

from appliance.chat.request import Thinking
from appliance.chat.traits import EFFORTS, Traits
from appliance.errors import InvalidRequest

_NO_EFFORT = "none"


def thinking_values(thinking: Thinking, traits: Traits) -> dict[str, Any]:
    """Return values for the template's variables; none if there is no wish.

    An effort of `none` means no thoughts, any other means thoughts; the template gets the nearest
    of the words that it knows, and where it knows none its switch. Raises InvalidRequest, which
    names the wish's field, for a firm one that the template cannot grant; thoughts that a model
    without any is asked for are no error.
    """
    effort = thinking.effort
    is_enabled = thinking.is_enabled
    if effort is not None:
        _check_effort(effort, thinking, traits)
        is_enabled = effort != _NO_EFFORT if is_enabled is None else is_enabled
    if is_enabled is False:
        return _off(thinking, traits)
    values: dict[str, Any] = {}
    if is_enabled and traits.thinking_variable is not None:
        values[traits.thinking_variable] = traits.thinking_on
    if effort is not None and effort != _NO_EFFORT:
        values |= _effort(effort, thinking, traits)
    return values


def _check_effort(effort: str, thinking: Thinking, traits: Traits) -> None:
    known = (_NO_EFFORT, *EFFORTS)
    if effort not in known and effort not in traits.efforts:
        words = ", ".join(known)
        raise InvalidRequest(f"{thinking.param} should be one of {words}.", param=thinking.param)


def _off(thinking: Thinking, traits: Traits) -> dict[str, Any]:
    if traits.thinking_variable is not None:
        return {traits.thinking_variable: traits.thinking_off}
    if traits.thinks and thinking.is_firm:
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
