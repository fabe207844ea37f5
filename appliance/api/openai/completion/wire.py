"""Define the body of Completions as it comes; unknown fields are tolerated and counted.

Source: OpenAI's API reference, "Create completion".
"""

from typing import Annotated

from msgspec import UNSET, Meta

from appliance.api.openai.choice import MOST_CHOICES, ChoiceFields
from appliance.api.openai.refusal import Refusable, neutral
from appliance.api.openai.sampling import TokenId

Prompts = Annotated[
    list[str | TokenId | Annotated[list[TokenId], Meta(min_length=1)]], Meta(min_length=1)
]


class CompletionBody(ChoiceFields, kw_only=True):
    """The body of POST /v1/completions."""

    # A text, texts, the ids of one prompt or of several; the codec refuses mixtures.
    prompt: str | Prompts
    suffix: str | None = None
    echo: bool | None = None
    best_of: Annotated[int, Meta(ge=1, le=MOST_CHOICES)] | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    # What belongs to conversations.
    tools: Annotated[Refusable, neutral([])] = UNSET
    tool_choice: Annotated[Refusable, neutral("none", "auto")] = UNSET
    top_logprobs: Annotated[Refusable, neutral()] = UNSET
    thinking_token_budget: Annotated[Refusable, neutral()] = UNSET
    # vLLM's
    add_special_tokens: Annotated[Refusable, neutral(True)] = UNSET
    prompt_embeds: Annotated[Refusable, neutral()] = UNSET
