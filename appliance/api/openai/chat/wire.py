"""Define the body of Chat Completions as it comes; unknown fields are tolerated and counted.

Source: OpenAI's API reference, "Create chat completion", with the extensions that local servers
share (`reasoning_content`, `video_url`, `enable_thinking`, `chat_template_kwargs`; `thinking` as
z.ai, Moonshot and DeepSeek have it, `reasoning` as OpenRouter …).
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from appliance.api.openai.choice import ChoiceFields
from appliance.api.openai.part import CommonPart
from appliance.api.openai.refusal import Refusable, neutral
from appliance.api.openai.sampling import MOST_TOKENS
from appliance.api.tool import FunctionFields, ThoughtTokens, ToolMode, ToolName
from appliance.chat.request import Role
from appliance.manifest.spec import Effort


class MediaUrl(msgspec.Struct):
    """Where media lie: an http(s) or data URL."""

    url: str


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image; some clients send the URL alone."""

    image_url: MediaUrl | str


class VideoPart(msgspec.Struct, tag_field="type", tag="video_url"):
    """A film."""

    video_url: MediaUrl | str


class File(msgspec.Struct):
    """A file's content as a data URL or base64; there is no store that an id could mean."""

    file_data: str | None = None
    file_id: str | None = None


class FilePart(msgspec.Struct, tag_field="type", tag="file"):
    """A file."""

    file: File


Part = CommonPart | ImagePart | VideoPart | FilePart


class Function(msgspec.Struct):
    """The function of an earlier call; arguments as text, or as an object some clients send."""

    name: str
    arguments: str | dict[str, Any] | None = None


class Call(msgspec.Struct):
    """An earlier tool call."""

    function: Function
    id: str | None = None


class WireMessage(msgspec.Struct):
    """One message; its thoughts come back under either name that they were sent under."""

    role: Role
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    function_call: dict[str, Any] | None = None
    audio: dict[str, Any] | None = None


class ToolBody(msgspec.Struct):
    """A tool that may be called."""

    function: FunctionFields
    type: Literal["function"] = "function"


class NamedFunction(msgspec.Struct):
    """A function by its name."""

    name: ToolName


class NamedChoice(msgspec.Struct, tag_field="type", tag="function"):
    """The wish for a call of one function."""

    function: NamedFunction


class AllowedFunction(msgspec.Struct, tag_field="type", tag="function"):
    """A function that may be called in this answer."""

    function: NamedFunction


class AllowedTools(msgspec.Struct):
    """Which of the tools may be called, and whether one of them must."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[AllowedFunction], Meta(min_length=1)]


class AllowedChoice(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """The wish for no calls but of some of the tools."""

    allowed_tools: AllowedTools


class ThinkingFields(msgspec.Struct):
    """Whether to think, and for how many tokens at most."""

    type: Literal["enabled", "adaptive", "auto", "disabled"]
    budget_tokens: ThoughtTokens | None = None


class ReasoningFields(msgspec.Struct):
    """How to think, and for how many tokens at most."""

    enabled: bool | None = None
    effort: Effort | None = None
    max_tokens: ThoughtTokens | None = None


class ChatBody(ChoiceFields, kw_only=True):
    """The body of POST /v1/chat/completions."""

    messages: Annotated[list[WireMessage], Meta(min_length=1)]
    max_completion_tokens: Annotated[int, Meta(ge=1, le=MOST_TOKENS)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: list[ToolBody] | None = None
    tool_choice: ToolMode | NamedChoice | AllowedChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Effort | None = None
    enable_thinking: bool | None = None
    thinking_token_budget: ThoughtTokens | None = None
    thinking: ThinkingFields | None = None
    reasoning: ReasoningFields | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    functions: Annotated[Refusable, neutral([])] = UNSET
    function_call: Annotated[Refusable, neutral("none", "auto")] = UNSET
    modalities: Annotated[Refusable, neutral(["text"])] = UNSET
    audio: Annotated[Refusable, neutral()] = UNSET
    prediction: Annotated[Refusable, neutral()] = UNSET
    verbosity: Annotated[Refusable, neutral("medium")] = UNSET
    web_search_options: Annotated[Refusable, neutral()] = UNSET
    # Those of vLLM that would change the prompt.
    add_generation_prompt: Annotated[Refusable, neutral(True)] = UNSET
    chat_template: Annotated[Refusable, neutral()] = UNSET
    continue_final_message: Annotated[Refusable, neutral(False)] = UNSET
    documents: Annotated[Refusable, neutral([])] = UNSET
    echo: Annotated[Refusable, neutral(False)] = UNSET
