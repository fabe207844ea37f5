"""Translate between Messages and the appliance's own words. Pure."""

from itertools import groupby
from typing import Any

import msgspec

from appliance.api.anthropic.block import read_messages, read_system, wire_call_id
from appliance.api.anthropic.wire import CountBody, MessagesBody, WireTool
from appliance.api.structure import agreed_structure
from appliance.api.tool import mode_choice, named_choice
from appliance.chat.event import (
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from appliance.chat.request import (
    ChatRequest,
    Message,
    Sampling,
    Structure,
    Thinking,
    Tool,
    ToolChoice,
)
from appliance.chat.seal import seal
from appliance.errors import InvalidRequest, ThreadsUnsupported
from appliance.parsing.argument import is_object

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}

SHOWN_SIGNATURE = seal("")
"""The signature of a thought whose text is sent: there is nothing left to carry."""


def to_chat_request(body: MessagesBody, most_tokens: int) -> ChatRequest:
    """Return what the body asks for; raises InvalidRequest naming the field.

    An answer of up to `most_tokens`, which is what the server allows, may be cut short where the
    context ends; a wish for more is left for the pipeline to refuse.
    """
    _refuse_begun_answer(body)
    return msgspec.structs.replace(
        to_prompt(body),
        sampling=Sampling(temperature=body.temperature, top_p=body.top_p, top_k=body.top_k),
        max_tokens=body.max_tokens,
        clamps_max_tokens=body.max_tokens <= most_tokens,
        stop=tuple(body.stop_sequences or ()),
    )


def to_prompt(body: CountBody) -> ChatRequest:
    """Return the request whose prompt is to be counted; raises InvalidRequest naming the field."""
    if body.thread is not None:
        raise ThreadsUnsupported
    if body.mcp_servers:
        raise InvalidRequest("mcp_servers: no MCP server is called from here.", param="mcp_servers")
    tools = tuple(_tool(index, tool) for index, tool in enumerate(body.tools or ()))
    wish = body.tool_choice
    return ChatRequest(
        model=body.model,
        messages=_messages(body),
        tools=tools,
        tool_choice=_tool_choice(body, tools),
        allows_parallel_calls=not (wish and wish.disable_parallel_tool_use),
        thinking=_thinking(body),
        template_kwargs=body.chat_template_kwargs or {},
        structure=_structure(body),
    )


def _refuse_begun_answer(body: CountBody) -> None:
    """Refuse a conversation that ends with the assistant's words, for the model to go on with."""
    spoken = [index for index, each in enumerate(body.messages) if each.role != "system"]
    if spoken and body.messages[spoken[-1]].role == "assistant":
        place = f"messages[{spoken[-1]}]"
        raise InvalidRequest(
            f"{place}: the conversation must end with a user message; "
            "answers that are begun by the caller are not supported.",
            param=place,
        )


def _messages(body: CountBody) -> tuple[Message, ...]:
    system = None if body.system is None else read_system(body.system, "system")
    return (*(() if system is None else (system,)), *read_messages(body.messages))


def _tool(index: int, tool: WireTool) -> Tool:
    place = f"tools[{index}]"
    if tool.type not in (None, "custom"):
        raise InvalidRequest(
            f"{place}.type: tools of type '{tool.type}' are not supported; "
            "declare a tool of your own with an input_schema.",
            param=f"{place}.type",
        )
    for name in ("name", "input_schema"):
        if getattr(tool, name) is None:
            raise InvalidRequest(f"{place}.{name} is missing.", param=f"{place}.{name}")
    return Tool(str(tool.name), tool.description, tool.input_schema, tool.strict)


def _tool_choice(body: CountBody, tools: tuple[Tool, ...]) -> ToolChoice:
    choice = body.tool_choice
    if choice is None:
        return ToolChoice()
    if choice.type == "tool":
        return named_choice(choice.name or "", tools)
    return mode_choice("required" if choice.type == "any" else choice.type, tools)


def _thinking(body: CountBody) -> Thinking:
    """Return the wishes about thoughts.

    Agents send the same ones whatever the model, so that none is firm.
    """
    effort = body.output_config.effort if body.output_config else None
    wish = body.thinking
    if wish is not None and wish.type == "disabled":
        return Thinking(is_enabled=False, is_firm=False)
    is_enabled, budget = (None, None) if wish is None else (True, wish.budget_tokens)
    param = "output_config.effort"
    return Thinking(is_enabled, effort, is_firm=False, param=param, budget=budget)


def _structure(body: CountBody) -> Structure | None:
    """Return what the answer must be; `output_format` is what the beta called it."""
    config = body.output_config
    fields = {
        "output_config.format": None if config is None else config.format,
        "output_format": body.output_format,
    }
    return agreed_structure(
        *(
            Structure("schema", wish.schema, f"{place}.schema")
            for place, wish in fields.items()
            if wish is not None
        )
    )


def usage_body(usage: Usage) -> dict[str, Any]:
    """Return token counts in Anthropic's shape, where cached tokens are not input tokens."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def message_head(request_id: str, model: str) -> dict[str, Any]:
    """Return what is known of an answer before it begins, under the name that was asked for."""
    return {"id": f"msg_{request_id}", "type": "message", "role": "assistant", "model": model}


def stop_body(finished: Finished) -> dict[str, Any]:
    """Return why an answer ended, and the caller's stop sequence if it was that."""
    if finished.stop is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": finished.stop}
    return {"stop_reason": _REASONS[finished.reason], "stop_sequence": None}


def message_body(
    request_id: str, model: str, events: list[GenerationEvent], *, shows_thoughts: bool
) -> dict[str, Any]:
    """Fold a whole generation into one answer, without the call that its model broke."""
    finished = events[-1]
    assert isinstance(finished, Finished)
    runs = [list(run) for _, run in groupby(events[:-1], block_key)]
    blocks = [_block(run, shows_thoughts=shows_thoughts) for run in runs]
    return {
        **message_head(request_id, model),
        "content": [block for block in blocks if block is not None],
        **stop_body(finished),
        "usage": usage_body(finished.usage),
    }


def block_key(event: GenerationEvent) -> object:
    """Return what is equal for all events of one block, and differs from the next block's."""
    return event.index if type(event) is ToolCallDelta else type(event)


def signature(thought: str, *, shows_thoughts: bool) -> str:
    """Return the signature of a thought, which carries it where its text is not sent."""
    return SHOWN_SIGNATURE if shows_thoughts else seal(thought)


def _block(run: list[GenerationEvent], *, shows_thoughts: bool) -> dict[str, Any] | None:
    first = run[0]
    if isinstance(first, ToolCallDelta):
        return _tool_use(first, "".join(e.arguments for e in run if isinstance(e, ToolCallDelta)))
    text = "".join(event.text for event in run if isinstance(event, TextDelta | ReasoningDelta))
    if isinstance(first, TextDelta):
        return {"type": "text", "text": text}
    return {
        "type": "thinking",
        "thinking": text if shows_thoughts else "",
        "signature": signature(text, shows_thoughts=shows_thoughts),
    }


def _tool_use(first: ToolCallDelta, arguments: str) -> dict[str, Any] | None:
    if not is_object(arguments):
        return None
    call_id, fields = wire_call_id(first.id or ""), msgspec.Raw(arguments.encode())
    return {"type": "tool_use", "id": call_id, "name": first.name, "input": fields}
