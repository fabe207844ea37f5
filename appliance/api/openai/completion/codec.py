"""Read a Completions body, and write a whole answer. Pure."""

from typing import Any

import msgspec

from appliance.api.openai.choice import (
    MOST_CHOICES,
    AnswerHead,
    end_fields,
    read_choice,
    usage_body,
)
from appliance.api.openai.completion.logprob import LogprobWriter
from appliance.api.openai.completion.wire import CompletionBody
from appliance.api.openai.sampling import to_request
from appliance.chat.event import GenerationEvent, Usage
from appliance.chat.request import ChatRequest
from appliance.errors import InvalidRequest

DEFAULT_TOKENS = 16
"""How long an answer may be if nobody says; OpenAI's own default."""

Prompt = str | tuple[int, ...]


def to_chat_requests(body: CompletionBody) -> tuple[ChatRequest, ...]:
    """Return what the body asks for, for each prompt; raises InvalidRequest naming the field."""
    n = body.n or 1
    prompts = _prompts(body)
    if len(prompts) * n > MOST_CHOICES:
        reason = f"{len(prompts)} prompts with {n} choices each are more than {MOST_CHOICES}."
        raise InvalidRequest(f"prompt: {reason}", param="prompt")
    if body.echo and body.logprobs is not None:
        reason = "logprobs: those of the prompt are not supported, so not together with echo."
        raise InvalidRequest(reason, param="logprobs")
    best_of = () if body.best_of in (None, n) else ("best_of",)
    request = to_request(body, body.max_tokens or DEFAULT_TOKENS)
    request = msgspec.structs.replace(
        request,
        clamps_max_tokens=body.max_tokens is None,
        suffix=body.suffix or None,
        logprobs=body.logprobs,
        unserved=(*request.unserved, *best_of),
    )
    return tuple(msgspec.structs.replace(request, prompt=prompt) for prompt in prompts)


def _prompts(body: CompletionBody) -> list[Prompt]:
    prompt = body.prompt
    if isinstance(prompt, str):
        return [prompt]
    if all(isinstance(each, str) for each in prompt):
        return [each for each in prompt if isinstance(each, str)]
    if all(isinstance(each, int) for each in prompt):
        return [tuple(each for each in prompt if isinstance(each, int))]
    if all(isinstance(each, list) for each in prompt):
        return [tuple(each) for each in prompt if isinstance(each, list)]
    reason = "should be all texts, all token ids, or all lists of token ids."
    raise InvalidRequest(f"prompt: {reason}", param="prompt")


def completion(
    head: AnswerHead,
    choices: list[list[GenerationEvent]],
    usage: Usage,
    *,
    echoes: list[str],
    has_logprobs: bool,
) -> dict[str, Any]:
    """Fold the events of every choice into one answer; `usage` is all of them together's.

    `echoes` is the text that comes before each choice's own.
    """
    return {
        **head.fields("text_completion"),
        "choices": [
            _choice(index, echo, events, has_logprobs=has_logprobs)
            for index, (echo, events) in enumerate(zip(echoes, choices, strict=True))
        ],
        "usage": usage_body(usage),
    }


def _choice(
    index: int, echo: str, events: list[GenerationEvent], *, has_logprobs: bool
) -> dict[str, Any]:
    text, tokens, finished = read_choice(events)
    return {
        "text": echo + text,
        "index": index,
        "logprobs": LogprobWriter().body(tokens) if has_logprobs else None,
        **end_fields(finished),
    }
