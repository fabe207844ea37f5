"""Write the response object round the items of an answer. Pure, but for the clock."""

import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from appliance.api.errors import error_row
from appliance.api.openai.responses.codec import has_logprobs
from appliance.api.openai.responses.listing import response_id
from appliance.api.openai.responses.tool import Offer, shown_choice
from appliance.api.openai.responses.wire import Item, PlainFormat, ResponsesBody
from appliance.chat.event import Usage
from appliance.errors import (
    ApplianceError,
    ContextTooLong,
    QueueFull,
    RequestCancelled,
    RequestError,
)

AnswerStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class Envelope:
    """What an answer says of its request, and how it stands. One instance per request."""

    def __init__(
        self,
        body: ResponsesBody,
        offer: Offer,
        request_id: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` tells Unix seconds."""
        self.id = response_id(request_id)
        self._head = {
            "id": self.id,
            "object": "response",
            "created_at": int(clock()),
        }
        self._clock = clock
        self._asked = _asked(body, offer)

    def response(
        self,
        status: AnswerStatus,
        output: list[Item],
        usage: Usage | None = None,
        error: BaseException | None = None,
    ) -> dict[str, Any]:
        """Return the response object; without `usage` there is none yet."""
        is_cut = status == "incomplete"
        return {
            **self._head,
            "status": status,
            "completed_at": int(self._clock()) if status == "completed" else None,
            "error": None if error is None else error_body(error),
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": output,
            "usage": None if usage is None else usage_body(usage),
            **self._asked,
        }


def ending_status(error: BaseException) -> AnswerStatus:
    """Return how an answer stands that ended with an error."""
    return "cancelled" if isinstance(error, RequestCancelled) else "failed"


def error_body(error: BaseException) -> Item:
    """Return why an answer failed; foreign errors say nothing of their cause.

    The codes are those that OpenAI's clients know, one of which agents make room at.
    """
    message = str(error) if isinstance(error, ApplianceError) else "Internal server error."
    return {"code": _error_code(error), "message": message}


def usage_body(usage: Usage) -> dict[str, Any]:
    """Return token counts in the shape of Responses."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _error_code(error: BaseException) -> str:
    match error:
        case ContextTooLong():
            return error_row(error).openai_code or "invalid_prompt"
        case QueueFull():
            return "rate_limit_exceeded"
        case RequestError() if not isinstance(error, RequestCancelled):
            return "invalid_prompt"
        case _:
            return "server_error"


def _asked(body: ResponsesBody, offer: Offer) -> dict[str, Any]:
    reasoning, text = body.reasoning, body.text
    summary = None if reasoning is None else reasoning.summary or reasoning.generate_summary
    return {
        "background": bool(body.background),
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "model": body.model,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": reasoning and reasoning.effort, "summary": summary},
        "safety_identifier": body.safety_identifier,
        "service_tier": "default",
        "store": body.store is not False,
        "temperature": body.temperature,
        "text": {
            "format": msgspec.to_builtins((text and text.format) or PlainFormat()),
            "verbosity": (text and text.verbosity) or "medium",
        },
        "tool_choice": shown_choice(body),
        "tools": offer.shown,
        "top_logprobs": (body.top_logprobs or 0) if has_logprobs(body) else 0,
        "top_p": body.top_p,
        "truncation": "disabled",
        "user": body.user,
    }
