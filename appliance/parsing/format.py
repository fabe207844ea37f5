"""Choose how a model's answers are read: which marks stand round its thoughts and its calls."""

import re
from dataclasses import dataclass

from appliance.manifest.spec import ChatSpec


@dataclass(frozen=True, slots=True)
class Marks:
    """What a model writes before and after a thing."""

    opening: str
    closing: str


THOUGHT_MARKS: dict[str, Marks | None] = {"none": None, "qwen3": Marks("<think>", "</think>")}
"""The marks round thoughts, by the names that a manifest's `reasoning_parser` may have."""

CALL_MARKS: dict[str, Marks | None] = {
    "none": None,
    "hermes": Marks("<tool_call>", "</tool_call>"),
}
"""The marks round calls that are JSON objects, by the names that `tool_parser` may have."""

_HERMES_KEY = re.compile(r'\\?"name\\?"\s*:')


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """How answers are read: `reasoning` and `tools` are names that a manifest may have."""

    reasoning: str = "none"
    tools: str = "none"

    def opens_thought(self, prompt: str) -> bool:
        """Say whether a prompt that ends so has begun a thought, which the answer goes on with."""
        marks = THOUGHT_MARKS[self.reasoning]
        return marks is not None and prompt.rstrip().endswith(marks.opening)


def choose_format(chat: ChatSpec, template: str) -> AnswerFormat:
    """Return the format that the manifest names; `auto` is the one that the template shows."""
    reasoning, tools = chat.reasoning_parser, chat.tool_parser
    if reasoning == "auto":
        reasoning = "qwen3" if "</think>" in template else "none"
    if tools == "auto":
        tools = "hermes" if _shows_hermes(template) else "none"
    return AnswerFormat(reasoning, tools)


def _shows_hermes(template: str) -> bool:
    """Say whether calls are JSON between the marks; some models have other things there."""
    has_other = "<function=" in template or "<arg_key>" in template
    return "<tool_call>" in template and not has_other and bool(_HERMES_KEY.search(template))
