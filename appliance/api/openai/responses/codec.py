"""Read a Responses body. Pure."""

from dataclasses import dataclass

import msgspec

from appliance.api.openai.refusal import unserved_fields
from appliance.api.openai.responses.item import Conversation
from appliance.api.openai.responses.tool import Offer
from appliance.api.openai.responses.wire import Item, ObjectFormat, ResponsesBody, SchemaFormat
from appliance.api.openai.sampling import to_request
from appliance.api.openai.structure import schema_structure
from appliance.chat.request import ChatRequest, Message, Structure, Thinking
from appliance.errors import InvalidRequest

_NEVER = ("conversation", "prompt", "context_management", "moderation", "truncation")
"""Fields that name what this server does not have, whatever the model."""

_SEALED = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
_INCLUDED = (
    _SEALED,
    _LOGPROBS,
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "file_search_call.results",
    "web_search_call.action.sources",
    "web_search_call.results",
)


@dataclass(frozen=True, slots=True)
class History:
    """The items of a conversation: those of the answers before, and those of this request."""

    earlier: list[Item]
    given: list[Item]


def given_items(body: ResponsesBody) -> list[Item]:
    """Return the items of a body; a text is a message of the user's."""
    if isinstance(body.input, str):
        return [{"type": "message", "role": "user", "content": body.input}]
    return body.input


def check_body(body: ResponsesBody) -> None:
    """Raise InvalidRequest for what contradicts itself, or what this server does not have."""
    for name in unserved_fields(body):
        if name in _NEVER:
            raise InvalidRequest(f"'{name}' is not supported here.", param=name)
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("stream_options needs stream to be true.", param="stream_options")
    if body.background and body.stream:
        reason = "background answers cannot be streamed: ask for them by their id."
        raise InvalidRequest(reason, param="stream")
    if body.background and body.store is False:
        raise InvalidRequest("background needs store to be true.", param="background")
    for index, wish in enumerate(body.include or ()):
        if wish not in _INCLUDED:
            place = f"include[{index}]"
            raise InvalidRequest(f"{place}: '{wish[:64]}' is not known.", param=place)
    for key, value in (body.metadata or {}).items():
        if not isinstance(value, str):
            place = f"metadata['{key[:64]}']"
            raise InvalidRequest(f"{place}: should be a text.", param=place)


def to_chat_request(body: ResponsesBody, history: History, offer: Offer) -> ChatRequest:
    """Return what the body asks for; raises InvalidRequest naming the field."""
    return msgspec.structs.replace(
        to_request(body, body.max_output_tokens, _structure(body)),
        messages=_messages(body, history),
        limit_param="max_output_tokens",
        logprobs=(body.top_logprobs or 0) if has_logprobs(body) else None,
        tools=offer.tools,
        tool_choice=offer.choice,
        allows_parallel_calls=body.parallel_tool_calls is not False,
        thinking=_thinking(body),
        template_kwargs=body.chat_template_kwargs or {},
    )


def has_logprobs(body: ResponsesBody) -> bool:
    """Say whether the answer's text comes with log-probabilities."""
    return bool(body.top_logprobs) or _LOGPROBS in (body.include or ())


def seals_thoughts(body: ResponsesBody) -> bool:
    """Say whether thoughts come packed too."""
    return _SEALED in (body.include or ())


def shows_summary(body: ResponsesBody) -> bool:
    """Say whether thoughts come as summaries."""
    wish = body.reasoning
    return wish is not None and (wish.summary or wish.generate_summary) is not None


def _messages(body: ResponsesBody, history: History) -> tuple[Message, ...]:
    conversation = Conversation(body.instructions)
    for item in history.earlier:
        conversation.add(item, "previous_response_id")
    for index, item in enumerate(history.given):
        conversation.add(item, "input" if isinstance(body.input, str) else f"input[{index}]")
    messages = conversation.messages()
    if not messages:
        raise InvalidRequest("input: there is nothing to answer.", param="input")
    return messages


def _thinking(body: ResponsesBody) -> Thinking:
    effort = None if body.reasoning is None else body.reasoning.effort
    budget = body.thinking_token_budget
    field = None if budget is None else "thinking_token_budget"
    return Thinking(effort=effort, param="reasoning.effort", budget=budget, budget_param=field)


def _structure(body: ResponsesBody) -> Structure | None:
    match body.text and body.text.format:
        case ObjectFormat():
            return Structure("object", param="text.format")
        case SchemaFormat(schema=schema, strict=strict):
            return schema_structure(schema, "text.format.schema", strict=strict)
        case _:
            return None
