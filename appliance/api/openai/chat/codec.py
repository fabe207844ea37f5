"""Read a Chat Completions body, and write a whole answer. Pure."""

from typing import Any

import msgspec

from appliance.api.openai.chat.message import to_message, unserved_history
from appliance.api.openai.chat.thinking import to_thinking
from appliance.api.openai.chat.wire import AllowedChoice, ChatBody, NamedChoice
from appliance.api.openai.choice import (
    AnswerHead,
    end_fields,
    finite_logprob,
    read_choice,
    usage_body,
)
from appliance.api.openai.sampling import to_request
from appliance.api.tool import allowed_choice, mode_choice, named_choice, to_tool
from appliance.chat.event import (
    GenerationEvent,
    ReasoningDelta,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from appliance.chat.request import ChatRequest, Tool, ToolChoice
from appliance.errors import InvalidRequest


def to_chat_request(body: ChatBody) -> ChatRequest:
    """Return what the body asks for; raises InvalidRequest naming the field."""
    field = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    request = to_request(body, getattr(body, field))
    tools, choice = _tools(body)
    return msgspec.structs.replace(
        request,
        limit_param=field,
        messages=tuple(to_message(index, each) for index, each in enumerate(body.messages)),
        logprobs=_num_logprobs(body),
        tools=tools,
        tool_choice=choice,
        allows_parallel_calls=body.parallel_tool_calls is not False,
        thinking=to_thinking(body),
        template_kwargs=body.chat_template_kwargs or {},
        unserved=(*request.unserved, *unserved_history(body.messages)),
    )


def _tools(body: ChatBody) -> tuple[tuple[Tool, ...], ToolChoice]:
    tools = tuple(to_tool(tool.function) for tool in body.tools or ())
    match body.tool_choice:
        case NamedChoice(function=function):
            return tools, named_choice(function.name, tools)
        case AllowedChoice(allowed_tools=allowed):
            names = (each.function.name for each in allowed.tools)
            return allowed_choice(names, allowed.mode, tools)
        case mode:
            return tools, mode_choice(mode, tools)


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
    text, tokens, finished = read_choice(events)
    return {
        "index": index,
        "message": _message(text, events),
        "logprobs": logprobs_body(tokens) if has_logprobs else None,
        **end_fields(finished),
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
