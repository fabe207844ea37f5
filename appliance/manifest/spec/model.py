"""Define the manifest's sections `models` and `defaults`: what is served, and with which policy."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from appliance.manifest.digest import short_digest
from appliance.manifest.quantity import Seconds
from appliance.manifest.source import ScriptedSource, Source, parse_source
from appliance.manifest.spec.engine import EngineSpec
from appliance.manifest.spec.section import Later, Name, Section
from appliance.manifest.spec.text import HomePath, Pattern, SourceText

# Fields of a model that are its base's where it is a profile: the two share what is in memory.
OF_BASE = ("source", "kind", "engine", "cache", "residency", "verify")

Kind = Literal["auto", "text", "vision", "embedding", "rerank", "stt", "tts"]
ReasoningParser = Literal[
    "auto",
    "none",
    "qwen3",
    "deepseek_r1",
    "glm",
    "kimi",
    "minimax",
    "step",
    "mistral",
    "gemma4",
    "harmony",
    "apriel",
    "cohere",
    "granite",
    "hunyuan",
    "kimi_k3",
    "minimax_m3",
    "muse",
    "seed",
    "solar",
]
ToolParser = Literal[
    "auto",
    "none",
    "hermes",
    "qwen3_coder",
    "llama3",
    "llama4",
    "pythonic",
    "mistral",
    "mistral_id",
    "mistral_list",
    "deepseek_v3",
    "deepseek_v31",
    "deepseek_v32",
    "deepseek_v4",
    "kimi_k2",
    "kimi_k3",
    "glm47",
    "glm45",
    "ling",
    "granite",
    "nemotron",
    "xlam",
    "functionary",
    "functionary_v31",
    "minimax_m1",
    "minimax_m2",
    "minimax_m3",
    "step",
    "seed",
    "harmony",
    "muse",
    "solar",
    "gemma3",
    "gemma4",
    "function_gemma",
    "phi4",
    "functools",
    "cohere",
    "command_r",
    "lfm2",
    "poolside",
    "minicpm5",
    "hunyuan",
    "apriel",
    "apertus",
    "internlm",
    "gigachat",
    "gigachat_v3",
    "json",
]


class SamplingSpec(Section):
    """Defaults for requests that do not say; else generation_config.json, else neutral."""

    temperature: float | None = Field(
        default=None, ge=0, le=2, description="0 = always the likeliest."
    )
    top_p: float | None = Field(default=None, gt=0, le=1, description="Keep this much probability.")
    top_k: int | None = Field(
        default=None, ge=0, le=2**31 - 1, description="Keep this many tokens; 0 = all."
    )
    min_p: float | None = Field(
        default=None, ge=0, le=1, description="Keep tokens this near the likeliest."
    )
    repetition_penalty: float | None = Field(
        default=None, gt=0, le=10, description="Over 1 = rather not what was said already."
    )
    frequency_penalty: float | None = Field(
        default=None, ge=-2, le=2, description="Taken off for each time a token was answered."
    )
    presence_penalty: float | None = Field(
        default=None, ge=-2, le=2, description="Taken off once a token was answered."
    )


class ChatSpec(Section):
    """How conversations become prompts, and answers become thoughts, calls and text."""

    template: str = Field(default="auto", description="auto, or the path of a Jinja template file.")
    template_kwargs: dict[str, Any] = Field(
        default={}, description="Values passed to the template."
    )
    reasoning_parser: ReasoningParser = Field(
        default="auto", description="How thoughts are told from answers."
    )
    tool_parser: ToolParser = Field(
        default="auto", description="How tool calls are told from text."
    )
    thinking_budget: int | None = Field(
        default=None,
        ge=0,
        description="Most tokens of thought, of which a request may want fewer; none = any.",
    )
    repetition_guard: bool = Field(
        default=False, description="End answers that go round in circles."
    )


class ResidencySpec(Section):
    """When a model is in memory."""

    preload: bool = Field(default=False, description="Load it at start and keep it ready.")
    pin: bool = Field(
        default=False, description="As preload, and never unload it to make room for another."
    )
    idle_unload: Seconds | None = Field(
        default=None, gt=0, description="Unload it after this long without a request; none = never."
    )
    priority: int = Field(
        default=0, ge=-1000, le=1000, description="Where room is short, lower goes first."
    )


class ModelLimitsSpec(Section):
    """Bounds for one model."""

    max_concurrent: Annotated[int | None, Later(None)] = Field(
        default=None, ge=1, description="Requests at one time; none = as the engine can."
    )
    queue: int | None = Field(
        default=None, ge=1, description="Requests waiting; none = the server's."
    )


class VerifyPromptSpec(Section):
    """One question, and what its answer must hold."""

    ask: str = Field(min_length=1, description="What the model is asked, at temperature 0.")
    expect: Pattern = Field(description="Regular expression that is searched in the answer.")
    max_tokens: int = Field(default=64, ge=1, le=4096, description="Longest answer.")


class VerifySpec(Section):
    """What a model must answer before it takes traffic."""

    prompts: tuple[VerifyPromptSpec, ...] = Field(default=(), description="All must pass.")
    on_failure: Literal["keep_old", "fail"] = Field(
        default="keep_old",
        description="keep_old = what served before goes on, fail = the model is not served.",
    )


class DefaultsSpec(Section):
    """Merged under every model, section by section."""

    engine: EngineSpec = Field(default=EngineSpec(), description="How a model runs.")
    cache: Annotated[Name, Later("none")] = Field(
        default="none", description="Which of cache_policies; none = nothing is kept."
    )
    sampling: SamplingSpec = Field(
        default=SamplingSpec(), description="For requests that do not say."
    )
    chat: ChatSpec = Field(default=ChatSpec(), description="How conversations become prompts.")
    residency: ResidencySpec = Field(
        default=ResidencySpec(), description="When a model is in memory."
    )
    limits: ModelLimitsSpec = Field(default=ModelLimitsSpec(), description="Bounds for one model.")
    verify: VerifySpec = Field(
        default=VerifySpec(), description="What a model must answer before it takes traffic."
    )
    warm_prompts: Annotated[tuple[HomePath, ...], Later(())] = Field(
        default=(), description="Files whose text is read into the cache beforehand."
    )


class ModelSpec(DefaultsSpec):
    """One model the operator wants served, or a profile: further settings for one.

    The loader sees to it that a model has a source; that a profile sets nothing of its base's; and
    that afterwards the profile has what its base has.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"required": ["like"], "properties": {"like": {"type": "string"}}},
            "then": {"properties": dict.fromkeys(OF_BASE, False)},
            "else": {"required": ["source"]},
        }
    )

    name: Name = Field(description="What requests call it.")
    aliases: tuple[Name, ...] = Field(default=(), description="Further names for it.")
    like: Name | None = Field(
        default=None, description="Makes it a profile of that model: same memory, own settings."
    )
    source: SourceText = Field(
        default_factory=str,
        description="hf:org/repo[@revision], path:/folder or path:/file.gguf, "
        "wheel:package==version[/file][#sha256=…], scripted:file.yaml",
    )
    kind: Annotated[Kind, Later("auto", "text", names="value")] = Field(
        default="auto", description="auto = what its files say."
    )

    @property
    def is_profile(self) -> bool:
        """Whether it has no memory of its own, but that of the model `like`."""
        return self.like is not None

    @property
    def residency_wish(self) -> Literal["must", "may"]:
        """Whether the model must be in memory, or may be."""
        return "must" if self.residency.preload or self.residency.pin else "may"

    def parsed_source(self) -> Source:
        """Return the source as a value."""
        return parse_source(self.source)

    def is_scripted(self) -> bool:
        """Say whether a script stands in for the model."""
        return isinstance(self.parsed_source(), ScriptedSource)

    def load_key(self) -> str:
        """Return 16 hex digits of all that needs a load: equal keys, same thing in memory."""
        engine = self.engine.model_dump(mode="json", exclude={"step_timeout"})
        return short_digest([str(self.parsed_source()), self.kind, engine])

    def policy_key(self) -> str:
        """Return 16 hex digits of all that takes force without a load."""
        policy = self.model_dump(mode="json", exclude={"source", "kind", "engine"})
        return short_digest([policy, self.engine.step_timeout])
