"""Read how much a Chat Completions body wants the model to think, in whose words ever. Pure."""

from typing import TypeVar

from appliance.api.openai.chat.wire import ChatBody, ReasoningFields, ThinkingFields
from appliance.chat.request import Thinking

_SWITCHED = {"enabled": True, "disabled": False}
_NO_THINKING = ThinkingFields("auto")
_NO_REASONING = ReasoningFields()

T = TypeVar("T")


def to_thinking(body: ChatBody) -> Thinking:
    """Return the wishes about thoughts; of several spellings of one the first here counts."""
    thinking, reasoning = body.thinking or _NO_THINKING, body.reasoning or _NO_REASONING
    switch, is_enabled = _first(
        ("enable_thinking", body.enable_thinking),
        ("thinking.type", _SWITCHED.get(thinking.type)),
        ("reasoning.enabled", reasoning.enabled),
    )
    effort_field, effort = _first(
        ("reasoning_effort", body.reasoning_effort), ("reasoning.effort", reasoning.effort)
    )
    budget_field, budget = _first(
        ("thinking_token_budget", body.thinking_token_budget),
        ("thinking.budget_tokens", thinking.budget_tokens),
        ("reasoning.max_tokens", reasoning.max_tokens),
    )
    return Thinking(
        is_enabled,
        effort,
        param=switch if effort is None and is_enabled is not None else effort_field,
        budget=budget,
        budget_param=None if budget is None else budget_field,
    )


def _first(*spellings: tuple[str, T | None]) -> tuple[str, T | None]:
    """Return the first field that says something, and what; the first field if none does."""
    return next((each for each in spellings if each[1] is not None), spellings[0])
