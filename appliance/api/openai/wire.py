"""Define OpenAI's chat bodies as they come; fields not named here are tolerated and counted.

Source: OpenAI's API reference, "Create chat completion", with the extensions that local servers
share (top_k, min_p, ignore_eos, chat_template_kwargs …). Of those without a standard: `priority` is
absolute, and only lowers the caller's own; `timeout` is in seconds, and only shortens the server's.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

MAX_TOKEN_ID = 2**31 - 1
_MOST = 2**31 - 1

TokenId = Annotated[int, Meta(ge=0, le=MAX_TOKEN_ID)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Role = Literal["system", "developer", "user", "assistant", "tool"]


class Part(msgspec.Struct):
    """One part of a message's content; only `text` parts are served yet."""

    type: str
    text: str | None = None


class Function(msgspec.Struct):
    """The function of an earlier call; arguments as text, or as an object some clients send."""

    name: str
    arguments: str | dict[str, Any] = "{}"


class Call(msgspec.Struct):
    """An earlier tool call."""

    function: Function
    id: str = ""


class WireMessage(msgspec.Struct):
    """One message."""

    role: Role
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


class StreamOptions(msgspec.Struct):
    """What a stream brings beside text."""

    include_usage: bool | None = None


class ChatBody(msgspec.Struct):
    """The body of POST /v1/chat/completions."""

    model: str
    messages: Annotated[list[WireMessage], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=_MOST)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1, le=_MOST)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=_MOST)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    # Keys and values are checked by the codec, which can name the one that is wrong.
    logit_bias: Annotated[dict[str, Any], Meta(max_length=1024)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: str | Annotated[list[str], Meta(max_length=16)] | None = None
    stop_token_ids: Annotated[list[TokenId], Meta(max_length=64)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=_MOST)] | None = None
    ignore_eos: bool | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    priority: Annotated[int, Meta(ge=-1000, le=1000)] | None = None
    timeout: Annotated[float, Meta(gt=0)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    # Known fields that no engine honours yet; anything but their neutral value is refused by name.
    tools: Any | UnsetType = UNSET
    tool_choice: Any | UnsetType = UNSET
    parallel_tool_calls: Any | UnsetType = UNSET
    functions: Any | UnsetType = UNSET
    function_call: Any | UnsetType = UNSET
    response_format: Any | UnsetType = UNSET
    structured_outputs: Any | UnsetType = UNSET
    guided_json: Any | UnsetType = UNSET
    guided_regex: Any | UnsetType = UNSET
    guided_choice: Any | UnsetType = UNSET
    guided_grammar: Any | UnsetType = UNSET
    n: Any | UnsetType = UNSET
    reasoning_effort: Any | UnsetType = UNSET
    enable_thinking: Any | UnsetType = UNSET
    thinking_token_budget: Any | UnsetType = UNSET
    cache_salt: Any | UnsetType = UNSET
    modalities: Any | UnsetType = UNSET
    audio: Any | UnsetType = UNSET
    prediction: Any | UnsetType = UNSET


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "n": (1,),
    "reasoning_effort": (),
    "enable_thinking": (),
    "thinking_token_budget": (),
    "cache_salt": (),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
}
"""Fields not honoured yet, with the values (beside null) that mean the same as leaving them out."""
