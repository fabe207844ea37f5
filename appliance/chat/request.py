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
    seed: int | None = None


class SamplingParams(msgspec.Struct, frozen=True):
    """What the engine samples with. temperature 0 = greedy; top_k 0, top_p 1, min_p 0 = off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None


class ChatRequest(msgspec.Struct, frozen=True):
    """A conversation to continue.

    `max_tokens` None means: as many as the model and the operator allow. `unserved` names the
    fields a caller set that no engine but `scripted` honours yet; the pipeline refuses them.
    """

    model: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    tools: tuple[dict[str, Any], ...] = ()
    template_kwargs: dict[str, Any] = {}
    unserved: tuple[str, ...] = ()
