"""Hold a conversation with tools through each official SDK, by its own helpers where it streams."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from anthropic import Anthropic
from anthropic.types import Message
from openai import OpenAI
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

TASK = "add up to six"
_SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}
_FUNCTION = {"name": "add", "description": "Add one.", "parameters": _SCHEMA, "strict": True}


@dataclass(frozen=True)
class Turn:
    """What the model said in one turn; `calls` are the totals it wants one added to."""

    text: str
    thought: str
    calls: tuple[int, ...]
    finish: str
    usage: tuple[int, int]
    ids: tuple[str, ...]


Results = list[tuple[str, str]]
Ask = Callable[[Results], Turn]
"""Hand over the results of the last turn's calls, and return the next turn."""


def run_loop(ask: Ask) -> list[Turn]:
    """Return every turn until one has no calls."""
    turns = [ask([])]
    while turns[-1].calls:
        assert len(turns) < 10, "the loop does not end"
        last = turns[-1]
        results = [f"total {total + 1}" for total in last.calls]
        turns.append(ask(list(zip(last.ids, results, strict=True))))
    return turns


def chat_loop(client: OpenAI, *, is_streamed: bool) -> Ask:
    """Return a loop through Chat Completions."""
    messages: list[Any] = [{"role": "user", "content": TASK}]
    fields: Any = {"model": "chat", "tools": [{"type": "function", "function": _FUNCTION}]}

    def send() -> ChatCompletion:
        if not is_streamed:
            return cast(ChatCompletion, client.chat.completions.create(messages=messages, **fields))
        options: Any = {"include_usage": True}
        with client.chat.completions.stream(
            messages=messages, stream_options=options, **fields
        ) as stream:
            return stream.get_final_completion()

    def ask(results: Results) -> Turn:
        messages.extend(
            {"role": "tool", "tool_call_id": name, "content": text} for name, text in results
        )
        completion = send()
        (choice,) = completion.choices
        messages.append(choice.message)
        calls: list[Any] = choice.message.tool_calls or []
        assert completion.usage
        return Turn(
            text=choice.message.content or "",
            thought=getattr(choice.message, "reasoning_content", None) or "",
            calls=tuple(json.loads(call.function.arguments)["total"] for call in calls),
            finish="calls" if choice.finish_reason == "tool_calls" else choice.finish_reason,
            usage=(completion.usage.prompt_tokens, completion.usage.completion_tokens),
            ids=tuple(call.id for call in calls),
        )

    return ask


def responses_loop(client: OpenAI, *, is_streamed: bool, is_stored: bool) -> Ask:
    """Return a loop through Responses: its state kept by the server, or replayed by the client."""
    new: list[Any] = [{"role": "user", "content": TASK}]
    fields: Any = {"model": "chat", "tools": [{"type": "function", **_FUNCTION}]}
    if not is_stored:
        fields |= {"store": False, "include": ["reasoning.encrypted_content"]}

    def send() -> Response:
        if not is_streamed:
            return cast(Response, client.responses.create(input=new, **fields))
        with client.responses.stream(input=new, **fields) as stream:
            return stream.get_final_response()

    def ask(results: Results) -> Turn:
        new.extend(
            {"type": "function_call_output", "call_id": name, "output": text}
            for name, text in results
        )
        response = send()
        if is_stored:
            new.clear()
            fields["previous_response_id"] = response.id
        else:
            new.extend(response.output)
        return _responses_turn(response)

    return ask


def _responses_turn(response: Response) -> Turn:
    calls = [item for item in response.output if item.type == "function_call"]
    thoughts = [item for item in response.output if item.type == "reasoning"]
    parts: list[Any] = [part for item in thoughts for part in item.content or item.summary]
    assert response.usage
    return Turn(
        text=response.output_text,
        thought="".join(part.text for part in parts),
        calls=tuple(json.loads(call.arguments)["total"] for call in calls),
        finish="calls" if calls else "stop",
        usage=(response.usage.input_tokens, response.usage.output_tokens),
        ids=tuple(call.call_id for call in calls),
    )


def messages_loop(client: Anthropic, *, is_streamed: bool) -> Ask:
    """Return a loop through Messages, with thinking on."""
    messages: list[Any] = [{"role": "user", "content": TASK}]
    tool = {"name": "add", "description": "Add one.", "input_schema": _SCHEMA}
    fields: Any = {"model": "chat", "max_tokens": 2000, "tools": [tool]}
    fields["thinking"] = {"type": "enabled", "budget_tokens": 1024}

    def send() -> Message:
        if not is_streamed:
            return cast(Message, client.messages.create(messages=messages, **fields))
        with client.messages.stream(messages=messages, **fields) as stream:
            return stream.get_final_message()

    def ask(results: Results) -> Turn:
        blocks = [
            {"type": "tool_result", "tool_use_id": name, "content": text} for name, text in results
        ]
        if blocks:
            messages.append({"role": "user", "content": blocks})
        message = send()
        messages.append({"role": "assistant", "content": message.content})
        return _message_turn(message)

    return ask


def _message_turn(message: Message) -> Turn:
    calls = [block for block in message.content if block.type == "tool_use"]
    inputs: list[Any] = [call.input for call in calls]
    return Turn(
        text="".join(block.text for block in message.content if block.type == "text"),
        thought="".join(block.thinking for block in message.content if block.type == "thinking"),
        calls=tuple(each["total"] for each in inputs),
        finish="calls" if message.stop_reason == "tool_use" else "stop",
        usage=(message.usage.input_tokens, message.usage.output_tokens),
        ids=tuple(call.id for call in calls),
    )
