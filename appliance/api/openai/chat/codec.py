"""Read a Chat Completions body, and write a whole answer. Pure."""

from typing import Any

import msgspec

from appliance.api.openai.chat.message import to_message, unserved_history
from appliance.api.openai.chat.wire import ChatBody, NamedChoice
from appliance.api.openai.choice import AnswerHead, finite_logprob, read_choice, usage_body
from appliance.api.openai.refusal import unserved_fields
from appliance.api.openai.sampling import to_request
from appliance.api.tool import (
    mode_choice,
    named_choice,
    strict_fields,
    to_tool,
    unserved_choice,
)
from appliance.chat.event import (
    GenerationEvent,
    ReasoningDelta,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from appliance.chat.request import ChatRequest, Thinking, Tool, ToolChoice
from appliance.errors import InvalidRequest


def to_chat_request(body: ChatBody) -> ChatRequest:
    """Return what the body asks for; raises InvalidRequest naming the field."""
    field = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    functions = [tool.function for tool in body.tools or ()]
    tools = tuple(map(to_tool, functions))
    choice = _tool_choice(body, tools)
    return msgspec.structs.replace(
        to_request(body, getattr(body, field)),
        limit_param=field,
        messages=tuple(to_message(index, each) for index, each in enumerate(body.messages)),
        logprobs=_num_logprobs(body),
        tools=tools,
        tool_choice=choice,
        allows_parallel_calls=body.parallel_tool_calls is not False,
        thinking=_thinking(body),
        template_kwargs=body.chat_template_kwargs or {},
        unserved=(
            *unserved_fields(body),
            *unserved_choice(choice),
            *strict_fields(tools, "tools[{}].function"),
            *unserved_history(body.messages),
        ),
    )


def _tool_choice(body: ChatBody, tools: tuple[Tool, ...]) -> ToolChoice:
    if isinstance(body.tool_choice, NamedChoice):
        return named_choice(body.tool_choice.function.name, tools)
    return mode_choice(body.tool_choice, tools)


def _thinking(body: ChatBody) -> Thinking:
    if body.reasoning_effort is None and body.enable_thinking is not None:
        return Thinking(body.enable_thinking, param="enable_thinking")
    return Thinking(body.enable_thinking, body.reasoning_effort)


def _num_logprobs(body: ChatBody) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise InvalidRequest("top_logprobs needs logprobs to be true.", param="top_logprobs")
    return None


def chat_completion(
    head: AnswerHead, choices: list[list[GenerationEvent]], usage: Usage, *, has_logprobs: bool
) -> dict[str, Any]:
    """Fold the events of every choice into one answer; `usage` is all of them together's."""
    return {
        **head.fields("chat.completion"),
        "choices": [
            _choice(index, events, has_logprobs=has_logprobs)
            for index, events in enumerate(choices)
        ],
        "usage": usage_body(usage),
    }


def logprobs_body(tokens: tuple[TokenLogprob, ...]) -> dict[str, Any]:
    """Return tokens in OpenAI's shape; `token` replaces what is no whole character."""
    return {
        "content": [
            _token_body(token) | {"top_logprobs": [_token_body(each) for each in token.top]}
            for token in tokens
        ],
        "refusal": None,
    }


def call_opening(call_id: str, name: str) -> dict[str, Any]:
    """Return a call whose arguments are still to come."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}


def _choice(index: int, events: list[GenerationEvent], *, has_logprobs: bool) -> dict[str, Any]:
    text, tokens, reason = read_choice(events)
    return {
        "index": index,
        "message": _message(text, events),
        "logprobs": logprobs_body(tokens) if has_logprobs else None,
        "finish_reason": reason,
    }


def _message(text: str, events: list[GenerationEvent]) -> dict[str, Any]:
    calls = _calls(events)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text if text or not calls else None,
        "refusal": None,
    }
    if thought := "".join(each.text for each in events if isinstance(each, ReasoningDelta)):
        message |= {"reasoning_content": thought, "reasoning": thought}
    if calls:
        message["tool_calls"] = calls
    return message


def _calls(events: list[GenerationEvent]) -> list[dict[str, Any]]:
    calls: dict[int, dict[str, Any]] = {}
    pieces: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            if event.id is not None:
                calls[event.index] = call_opening(event.id, event.name or "")
            pieces.setdefault(event.index, []).append(event.arguments)
    for index, call in calls.items():
        call["function"]["arguments"] = "".join(pieces[index])
    return list(calls.values())


def _token_body(token: TokenLogprob) -> dict[str, Any]:
    return {
        "token": token.token.decode(errors="replace"),
        "logprob": finite_logprob(token),
        "bytes": list(token.token),
    }
