"""One agent's conversation makes one prompt, whichever dialect its client speaks."""

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import pytest

from appliance.api.anthropic.codec import message_body, to_prompt
from appliance.api.anthropic.wire import CountBody
from appliance.api.openai.chat.codec import chat_completion, to_chat_request
from appliance.api.openai.chat.wire import ChatBody
from appliance.api.openai.choice import AnswerHead
from appliance.chat.event import (
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from appliance.chat.probe import find_traits
from appliance.chat.request import ChatRequest
from appliance.chat.template import ChatTemplate
from tests.api import responses
from tests.chat.gallery import SPECIAL_TOKENS, Template, read_gallery

Json = dict[str, Any]

SYSTEM = "You are an agent.\n\nUse the tools."
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Step(NamedTuple):
    """What is said, or what the tools gave, and what the model answers to it."""

    asked: str | tuple[str, ...]
    answer: tuple[GenerationEvent, ...]


def answer(*, thought: str = "", text: str = "", **calls: str) -> tuple[GenerationEvent, ...]:
    """Return what a model says: `calls` are their arguments by a part of their ids."""
    events: list[GenerationEvent] = [ReasoningDelta(thought)] if thought else []
    events += [TextDelta(text)] if text else []
    for index, (name, arguments) in enumerate(calls.items()):
        opening = ToolCallDelta(index, f"call_{name:0<24}", "look")
        events += [opening, ToolCallDelta(index, arguments=arguments)]
    return (*events, Finished("tool_calls" if calls else "stop", Usage(3, 2)))


TRANSCRIPT = (
    Step("What is on in Zürich?", answer(thought="First look.", a='{"city":  "Zürich" }')),
    Step(("18C",), answer(text="One\nmoment.", b='{"city":"Bern","n":1.0}', c="{}")),
    Step(("rain", ""), answer(thought="That will do.\n\nYes.", text="  Rain, at 18C.\n")),
    Step("And Rome? <é> & 🌊", answer(thought="Again.", text="Well:", d='{"city":"Rome"}')),
    Step(("sun",), answer(text="Sun.")),
    Step("Thanks!", answer(text="Any time.")),
)


def by_chat(steps: Iterable[Step]) -> ChatRequest:
    turns: list[Json] = [{"role": "system", "content": SYSTEM}]
    calls: list[Json] = []
    for step in steps:
        if isinstance(step.asked, str):
            turns.append({"role": "user", "content": step.asked})
        else:
            turns += [
                {"role": "tool", "tool_call_id": call["id"], "content": text}
                for call, text in zip(calls, step.asked, strict=True)
            ]
        head = AnswerHead("r", "m", 7)
        whole = chat_completion(head, [list(step.answer)], Usage(), has_logprobs=False)
        turns.append(whole["choices"][0]["message"])
        calls = turns[-1].get("tool_calls", [])
    function = {"name": "look", "description": "Look.", "parameters": SCHEMA}
    tools = [{"type": "function", "function": function}]
    body = {"model": "m", "messages": turns[:-1], "tools": tools}
    return to_chat_request(msgspec.convert(body, ChatBody))


def by_responses(steps: Iterable[Step]) -> ChatRequest:
    items: list[Json] = []
    size = 0
    calls: list[Json] = []
    for step in steps:
        if isinstance(step.asked, str):
            items.append({"role": "user", "content": [{"type": "input_text", "text": step.asked}]})
        else:
            items += [
                {"type": "function_call_output", "call_id": call["call_id"], "output": text}
                for call, text in zip(calls, step.asked, strict=True)
            ]
        size = len(items)
        fields = {"store": False, "include": ["reasoning.encrypted_content"]}
        items += responses.folded(list(step.answer), **fields)["output"]
        calls = [item for item in items[size:] if item["type"] == "function_call"]
    tool = {"type": "function", "name": "look", "description": "Look.", "parameters": SCHEMA}
    tools = [{**tool, "strict": False}]
    return responses.chat_request(instructions=SYSTEM, input=items[:size], tools=tools)


def by_messages(steps: Iterable[Step]) -> ChatRequest:
    turns: list[Json] = []
    calls: list[Json] = []
    for step in steps:
        content: Any = step.asked
        if not isinstance(step.asked, str):
            content = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": text}
                for call, text in zip(calls, step.asked, strict=True)
            ]
        turns.append({"role": "user", "content": content})
        body = message_body("r", "m", list(step.answer), shows_thoughts=True)
        whole = json.loads(msgspec.json.encode(body))
        turns.append({"role": "assistant", "content": whole["content"]})
        calls = [block for block in whole["content"] if block["type"] == "tool_use"]
    tools = [{"name": "look", "description": "Look.", "input_schema": SCHEMA}]
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: n=1;"},
        {"type": "text", "text": SYSTEM},
    ]
    body = {"model": "m", "system": system, "messages": turns[:-1], "tools": tools}
    return to_prompt(msgspec.convert(body, CountBody))


TOOLS = "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
TURN = "<{{ m.role }}>{{ m.reasoning_content }}|{{ m.content }}"
CALLS = "{% for call in m.tool_calls or [] %}[{{ call.id }} ARGUMENTS]{% endfor %}"


def template(turn: str, tools: str = TOOLS) -> Template:
    source = f"{tools}{{% for m in messages %}}{turn}\n{{% endfor %}}"
    compiled = ChatTemplate({"default": source}, SPECIAL_TOKENS, "test")
    return Template("test", compiled, find_traits(compiled))


TEMPLATES = {
    "arguments as a mapping": template(
        TURN + CALLS.replace("ARGUMENTS", "{{ call.function.arguments | tojson }}")
    ),
    "arguments as text": template(
        TURN + CALLS.replace("ARGUMENTS", "{{ call.function.arguments }}")
    ),
    "no calls": template(TURN),
    "no tools and no thoughts": template("{{ m.role }}: {{ m.content }}", tools=""),
}


def prompts(each: Template, read: Callable[[Iterable[Step]], ChatRequest]) -> list[str]:
    """Return the prompt of every turn, without what the template begins the answer with."""
    texts = []
    for size in range(1, len(TRANSCRIPT) + 1):
        request = read(TRANSCRIPT[:size])
        tools = request.tools if each.traits.shows_tools else ()
        texts.append(each.render(request.messages, *tools, add_generation_prompt=False))
    return texts


@pytest.mark.parametrize("each", TEMPLATES.values(), ids=TEMPLATES)
def test_conversation_has_one_prompt_in_every_dialect(each: Template) -> None:
    chat = prompts(each, by_chat)

    assert prompts(each, by_responses) == chat
    assert prompts(each, by_messages) == chat
    for before, after in pairwise(chat):
        assert after.startswith(before)


@pytest.mark.registry
@pytest.mark.timeout(300)
def test_conversation_has_one_prompt_with_every_real_template() -> None:
    for each in read_gallery():
        chat = prompts(each, by_chat)

        assert prompts(each, by_responses) == chat, each.name
        assert prompts(each, by_messages) == chat, each.name
        assert all("Zürich" in prompt and "You are an agent" in prompt for prompt in chat)
