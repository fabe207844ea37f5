"""Define the bodies and items of Responses as they come; unknown fields are tolerated and counted.

Source: OpenAI's API reference, "Create a model response", with the extensions that local servers
share (top_k, stop, seed, `chat_template_kwargs` …). Items are told apart by hand, since those of
types unknown here are kept and tolerated too.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta

from appliance.api.body import fault
from appliance.api.openai.part import CommonPart
from appliance.api.openai.refusal import Refusable, neutral
from appliance.api.openai.sampling import MOST_TOKENS, GenerationFields
from appliance.api.tool import FunctionFields, ThoughtTokens, ToolMode, ToolName
from appliance.manifest.spec import Effort

Item = dict[str, Any]
"""An item as it came, or as it goes out."""

Summary = Literal["auto", "concise", "detailed"]

T = TypeVar("T")


class InputImage(msgspec.Struct, tag_field="type", tag="input_image"):
    """An image, as an http(s) or data URL."""

    image_url: str | None = None
    file_id: str | None = None


class InputFile(msgspec.Struct, tag_field="type", tag="input_file"):
    """A file's content as a data URL or base64, or where it lies."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None


Part = CommonPart | InputImage | InputFile


class MessageItem(msgspec.Struct):
    """A message of any role, with `type` or without."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part] | None = None


class CallItem(msgspec.Struct):
    """A call of a function in an earlier answer."""

    call_id: str
    name: str
    arguments: str | dict[str, Any]
    namespace: str | None = None


class CallOutputItem(msgspec.Struct):
    """What a call came to."""

    call_id: str
    output: str | list[Part]


class ThoughtPart(msgspec.Struct):
    """A piece of a thought, or of its summary."""

    text: str


class ReasoningItem(msgspec.Struct):
    """A thought of an earlier answer."""

    summary: list[ThoughtPart] | None = None
    content: list[ThoughtPart] | None = None
    encrypted_content: str | None = None


class FunctionTool(FunctionFields, kw_only=True):
    """A function that may be called."""

    type: Literal["function"]


class Namespace(msgspec.Struct):
    """Functions that share the first part of their names."""

    name: ToolName
    tools: list[Item]
    description: str = ""


class NamedChoice(msgspec.Struct, tag_field="type", tag="function"):
    """The wish for a call of one function."""

    name: ToolName


class AllowedFunction(msgspec.Struct, tag_field="type", tag="function"):
    """A function that may be called in this answer."""

    name: ToolName


class AllowedChoice(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """The wish for no calls but of some of the tools."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[AllowedFunction], Meta(min_length=1)]


class PlainFormat(msgspec.Struct, tag_field="type", tag="text"):
    """The answer may be any text."""


class ObjectFormat(msgspec.Struct, tag_field="type", tag="json_object"):
    """The answer shall be a JSON object."""


class SchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema", omit_defaults=True):
    """The answer shall be JSON of a schema; not `strict` leaves out what cannot be enforced."""

    name: str
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class TextFields(msgspec.Struct):
    """What the answer's text shall be like."""

    format: PlainFormat | ObjectFormat | SchemaFormat | None = None
    verbosity: Annotated[Literal["low", "medium", "high"] | None, neutral("medium")] = None


class ReasoningFields(msgspec.Struct):
    """How to think, and what to show of it."""

    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None
    context: Annotated[Refusable, neutral("auto")] = UNSET
    mode: Annotated[Refusable, neutral("standard")] = UNSET


class StreamOptions(msgspec.Struct):
    """What a stream brings beside the answer."""

    include_obfuscation: Annotated[Refusable, neutral(False)] = UNSET


class ResponsesBody(GenerationFields, kw_only=True):
    """The body of POST /v1/responses."""

    input: str | list[Item]
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=MOST_TOKENS)] | None = None
    max_tool_calls: Annotated[int, Meta(ge=0, le=MOST_TOKENS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    background: bool | None = None
    store: bool | None = None
    include: list[str] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: list[Item] | None = None
    tool_choice: ToolMode | NamedChoice | AllowedChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningFields | None = None
    text: TextFields | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    thinking_token_budget: ThoughtTokens | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    conversation: Annotated[Refusable, neutral()] = UNSET
    prompt: Annotated[Refusable, neutral()] = UNSET
    context_management: Annotated[Refusable, neutral([])] = UNSET
    truncation: Annotated[Refusable, neutral("disabled")] = UNSET
    background_options: Annotated[Refusable, neutral({}, {"completion_window": "soonest"})] = UNSET
    n: Annotated[Refusable, neutral(1)] = UNSET


def converted(value: Item, kind: type[T], place: str) -> T:
    """Return an item in its own type; raises InvalidRequest naming the field, below `place`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise fault(error, place) from error
