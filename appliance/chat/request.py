"""Say what a caller wants continued, in no vendor's dialect."""

from typing import Any, Literal

import msgspec

Role = Literal["system", "developer", "user", "assistant", "tool"]
MediaKind = Literal["image", "audio", "video", "file"]


class ToolCall(msgspec.Struct, frozen=True):
    """A call the assistant made earlier; `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class Media(msgspec.Struct, frozen=True):
    """An image, sound, film or file of a message, as an http(s) or data URL.

    It stands before the character `at` of the message's content; `place` is its path in the body.
    """

    kind: MediaKind
    url: str
    at: int
    place: str

    def moved(self, by: int) -> "Media":
        """Return it for a content that has so many characters more before it."""
        return msgspec.structs.replace(self, at=self.at + by)


class Message(msgspec.Struct, frozen=True):
    """One turn. Text parts are already joined with line ends; `content` None means no text.

    `thought` is what the assistant thought before `content`, as it came in an earlier answer.
    """

    role: Role
    content: str | None = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    thought: str | None = None
    media: tuple[Media, ...] = ()

    def after(self, text: str) -> "Message":
        """Return the message with a text before its own."""
        return msgspec.structs.replace(
            self,
            content=text + (self.content or ""),
            media=tuple(each.moved(len(text)) for each in self.media),
        )


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function that the assistant may call; `parameters` is a JSON Schema of its arguments."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolChoice(msgspec.Struct, frozen=True):
    """Whether tools may, must not or must be called; `named`: the one of that `name` must be."""

    mode: Literal["auto", "none", "required", "named"] = "auto"
    name: str | None = None

    @property
    def is_forced(self) -> bool:
        """Say whether the answer must call."""
        return self.mode in ("required", "named")


class Structure(msgspec.Struct, frozen=True):
    """What the text of an answer must be, for certain; `value` is as `kind` says.

    `schema`: a JSON Schema that a JSON value is valid for, `object`: any JSON object (no value),
    `regex`: a regular expression that matches all of it, `choice`: a tuple of texts of which it is
    one, `grammar`: a grammar, in Lark's notation or in GBNF. `param` is the field of the body that
    a refusal names. Not `is_strict`: what of a schema cannot be enforced is ignored, not refused.
    """

    kind: Literal["schema", "object", "regex", "choice", "grammar"]
    value: Any = None
    param: str = "response_format"
    is_strict: bool = True


class Thinking(msgspec.Struct, frozen=True):
    """Wishes about thoughts before the answer; None means: as the model's template does it.

    `budget`: the most tokens that they may have, of which 0 is none. `param` is the field of the
    body that a refusal of the others names, `budget_param` that of the budget; None: it is left out
    where it cannot be kept. Wishes that are not `is_firm` are not refused where the template cannot
    grant them: the model then thinks as it does.
    """

    is_enabled: bool | None = None
    effort: str | None = None
    is_firm: bool = True
    param: str = "reasoning_effort"
    budget: int | None = None
    budget_param: str | None = None


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
    """A conversation to continue, or with `prompt` a text (or token ids) as it stands.

    `suffix` is what shall come after the answer to a `prompt`. `max_tokens` None means: as many as
    the model and the operator allow; `clamps_max_tokens` lets these shorten the answer, where they
    else refuse the request; `limit_param` is the field that said it. Before `min_tokens` (or the
    most that the answer may have, if that is less) no end token ends it; the model's own and
    `stop_token_ids` do after. `logprobs` None = none, else how many of the likeliest tokens come
    with each. `priority` None = the caller's own, which it can only lower; `timeout_seconds` counts
    from the request's arrival and can only shorten the server's. `structure` bounds the answer's
    text; calls, where there are tools to call, may stand in its place. `unserved` names the
    fields a caller set that no engine but `scripted` honours yet; the pipeline refuses them.
    """

    model: str
    messages: tuple[Message, ...] = ()
    prompt: str | tuple[int, ...] | None = None
    suffix: str | None = None
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    limit_param: str = "max_tokens"
    clamps_max_tokens: bool = False
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    priority: int | None = None
    timeout_seconds: float | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    allows_parallel_calls: bool = True
    thinking: Thinking = Thinking()
    template_kwargs: dict[str, Any] = {}
    structure: Structure | None = None
    unserved: tuple[str, ...] = ()
