"""Take down how a chat template itself writes what an assistant says, calls and thinks."""

import json
import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.traits import Samples, Traits

SAMPLE_THOUGHT = "thoughtmark"
SAMPLE_ANSWER = "saymark"
SAMPLE_ARGUMENTS: dict[str, Any] = {"placekey": "in <b>", "daykey": -3}
NESTED_ARGUMENTS = SAMPLE_ARGUMENTS | {"listkey": {"innerkey": [1, 2]}}
NEXT_ARGUMENTS: dict[str, Any] = {"placekey": "next"}
"""What the calls of samples have: one call the nested ones where a template can show them."""

_INNER = {"innerkey": {"type": "array", "items": {"type": "integer"}, "description": "numbers"}}
_FLAT = {
    "placekey": {"type": "string", "description": "where"},
    "daykey": {"type": "integer", "description": "when"},
}
_NESTED = _FLAT | {"listkey": {"type": "object", "description": "what", "properties": _INNER}}
_FLAT_TOOL, SAMPLE_TOOL = (
    Tool(
        "lookmark",
        "look",
        {"type": "object", "properties": properties, "required": ["placekey"]},
    )
    for properties in (_FLAT, _NESTED)
)
"""The function that is called in samples, as some templates can declare it, and as most can."""

_ASK = Message("user", "askmark")
_SAY = Message("assistant", SAMPLE_ANSWER)
_MOST_SAMPLE = 4096
_MOST_TAIL = 256
_MARK_START = re.compile(r"[<\[][^>\]\s]*\Z")

Render = Callable[[tuple[Message, ...], tuple[Tool, ...], dict[str, Any]], str | None]
"""Returns what a template makes of messages, tools and variables; None if it refuses."""


def answer_text(prompt: str, whole: str) -> str:
    """Return what an answer adds to the prompt that asked for it, in a text that has both.

    Where that does not begin with the prompt, which had begun a thought for instance, it is what
    stands behind all that they share, and begins with a whole mark.
    """
    pairs = enumerate(zip(prompt, whole, strict=False))
    end = next((at for at, (a, b) in pairs if a != b), min(len(prompt), len(whole)))
    begun = _MARK_START.search(whole[:end]) if end < len(prompt) else None
    return whole[begun.start() if begun else end :]


def take_samples(render: Render, traits: Traits) -> Samples:
    """Return how a template with these traits writes answers; "" for what it does not show."""
    tools: tuple[Tool, ...] = ()
    if traits.shows_tools:
        is_nested = render((_ASK,), (SAMPLE_TOOL,), {}) is not None
        tools = (SAMPLE_TOOL if is_nested else _FLAT_TOOL,)
    variable = traits.thinking_variable
    on = {variable: traits.thinking_on} if variable else {}
    off = {variable: traits.thinking_off} if variable else {}
    prompt = render((_ASK,), tools, on) or ""

    def answer(turn: Message, mark: str) -> str:
        whole = render((_ASK, turn), tools, on | {"add_generation_prompt": False})
        text = "" if whole is None else answer_text(prompt, whole)[:_MOST_SAMPLE]
        return text if mark in text else ""

    return Samples(
        thinking_tail=prompt[-_MOST_TAIL:],
        plain_tail=(render((_ASK,), tools, off) or "")[-_MOST_TAIL:],
        thought=answer(replace(_SAY, thought=SAMPLE_THOUGHT), SAMPLE_THOUGHT)
        or answer(replace(_calling(SAMPLE_ARGUMENTS), thought=SAMPLE_THOUGHT), SAMPLE_THOUGHT),
        call=answer(_calling(NESTED_ARGUMENTS), "innerkey")
        or answer(_calling(SAMPLE_ARGUMENTS), "placekey"),
        calls=answer(_calling(SAMPLE_ARGUMENTS, NEXT_ARGUMENTS), NEXT_ARGUMENTS["placekey"]),
    )


def _calling(*arguments: dict[str, Any]) -> Message:
    calls = (
        ToolCall(f"call_{number}_0001", SAMPLE_TOOL.name, json.dumps(each))
        for number, each in enumerate(arguments)
    )
    return Message("assistant", tool_calls=tuple(calls))
