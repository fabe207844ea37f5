"""Say what a caller wants continued, in no vendor's dialect."""

from typing import Any, Literal

import msgspec

Role = Literal["system", "developer", "user", "assistant", "tool"]


class ToolCall(msgspec.Struct, frozen=True):
    """A call the assistant made earlier; `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True):
    """One turn. Text parts are already joined with line ends; `content` None means no text."""

    role: Role
    content: str | None = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class Sampling(msgspec.Struct, frozen=True):
    """Sampling wishes; None means: the model's own default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[int, float] = {}
    seed: int | None = None


class SamplingParams(msgspec.Struct, frozen=True):
    """What the engine samples with; the defaults change nothing.

    temperature 0 = greedy. `repetition_penalty` (1 = off) divides positive and multiplies negative
    logits of tokens seen in prompt or answer; `frequency_penalty` and `presence_penalty` (0 = off)
    are subtracted for each time, and once, that a token was answered. `logit_bias` is added by
    token id. All of these come before the temperature; then top_p (1 = off), min_p (0 = off) and
    top_k (0 = off) drop tokens.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: dict[int, float] = {}


class ChatRequest(msgspec.Struct, frozen=True):
    """A conversation to continue.

    `max_tokens` None means: as many as the model and the operator allow. Before `min_tokens` (or
    the most that the answer may have, if that is less) no end token ends it; the model's own and
    `stop_token_ids` do after. `logprobs` None = none, else how many of the likeliest tokens come
    with each. `priority` None = the caller's own, which it can only lower; `timeout_seconds`
    counts from the request's arrival and can only shorten the server's. `unserved` names the
    fields a caller set that no engine but `scripted` honours yet; the pipeline refuses them.
    """

    model: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    priority: int | None = None
    timeout_seconds: float | None = None
    tools: tuple[dict[str, Any], ...] = ()
    template_kwargs: dict[str, Any] = {}
    unserved: tuple[str, ...] = ()
