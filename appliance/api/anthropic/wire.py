"""Define the bodies of Messages as they come; fields not named here are tolerated and counted.

Source: Anthropic's API reference, "Create a Message" and "Count Message tokens", betas included.
What only steers Anthropic's own machines (cache_control, service_tier, container,
context_management, inference_geo …) is accepted and changes nothing. Of the extensions that local
servers share, `chat_template_kwargs` is here.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

_MOST = 2**31 - 1

Name = Annotated[str, Meta(min_length=1)]
MediaType = Annotated[str, Meta(pattern=r"^[\w.+-]+/[\w.+-]+$", max_length=128)]


class Source(msgspec.Struct):
    """Where an image or a document is; `type` says which of the others must be there."""

    type: str
    media_type: MediaType | None = None
    data: str | None = None
    url: str | None = None
    content: "str | list[Block] | None" = None


class Block(msgspec.Struct):
    """One block of content, of any type: of those unknown here, what text they have is read."""

    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: "str | list[Block] | dict[str, Any] | None" = None
    is_error: bool | None = None
    source: Source | str | None = None
    title: str | None = None
    context: str | None = None


class WireMessage(msgspec.Struct):
    """One message; `system` among them is a beta that agents use."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block] | None = None


class WireTool(msgspec.Struct):
    """A tool; without `type`, or as `custom`, it is the caller's own."""

    name: Name | None = None
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class WireToolChoice(msgspec.Struct):
    """Whether and which tools are called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class WireThinking(msgspec.Struct):
    """Whether to think, for how many tokens at most, and whether thoughts are shown."""

    type: Literal["enabled", "adaptive", "disabled", "between_tools"]
    budget_tokens: Annotated[int, Meta(ge=1, le=_MOST)] | None = None
    display: Literal["summarized", "omitted", "updates"] | None = None


class OutputFormat(msgspec.Struct):
    """The answer shall be JSON of a schema."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct):
    """How much effort an answer is worth, and its form."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class Metadata(msgspec.Struct):
    """Whom the request is for."""

    user_id: str | None = None


class CountBody(msgspec.Struct, kw_only=True):
    """The body of POST /v1/messages/count_tokens: what a prompt is made of."""

    model: str
    messages: Annotated[list[WireMessage], Meta(min_length=1, max_length=100_000)]
    system: str | list[Block] | None = None
    tools: list[WireTool] | None = None
    tool_choice: WireToolChoice | None = None
    thinking: WireThinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    mcp_servers: list[Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    thread: Any = None
    cache_control: Any = None
    context_management: Any = None


class MessagesBody(CountBody, kw_only=True):
    """The body of POST /v1/messages."""

    max_tokens: Annotated[int, Meta(ge=1, le=_MOST)]
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=_MOST)] | None = None
    stop_sequences: Annotated[list[Name], Meta(max_length=16)] | None = None
    metadata: Metadata | None = None
    service_tier: str | None = None
    container: Any = None
