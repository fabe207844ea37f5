"""Define the manifest's sections: frozen, strict, with their defaults. Loading is `load`'s."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from appliance.manifest.quantity import Bytes, Seconds
from appliance.manifest.secret import KeySecret
from appliance.manifest.source import ScriptedSource, Source, parse_source

Role = Literal["admin", "inference", "metrics"]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$"


def _check_name(text: str) -> str:
    if re.fullmatch(_NAME, text) is None:
        raise ValueError(
            "should be 1 to 128 letters, digits or . _ : / @ - and begin with a letter or digit"
        )
    return text


def _check_source(text: str) -> str:
    parse_source(text)
    return text


def _check_version(value: object) -> object:
    # To Python, and so to Literal[1], true and 1.0 are the same as 1.
    if type(value) is not int:
        raise ValueError("should be 1")
    return value


Name = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": _NAME})]
SourceText = Annotated[
    str,
    AfterValidator(_check_source),
    Field(json_schema_extra={"pattern": "^(hf|path|wheel|scripted):."}),
]


class Section(BaseModel):
    """What every section shares: unknown keys are errors and values never change.

    `later_keys` and `later_values` (by key) name what the contract has and this build has not, so
    that using it gets an answer better than "unknown key".
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    later_keys: ClassVar[frozenset[str]] = frozenset()
    later_values: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


class LimitsSpec(Section):
    """Bounds on what one caller can ask of the appliance."""

    max_body: Bytes = Field(default=32 * 2**20, gt=0, description="Largest request body.")
    request_timeout: Seconds = Field(
        default=600.0, gt=0, description="Longest time an answer may take."
    )
    body_timeout: Seconds = Field(
        default=30.0, gt=0, description="Longest time a request body may take."
    )
    write_timeout: Seconds = Field(
        default=30.0, gt=0, description="Longest time a client may take nothing of its stream."
    )
    queue_per_model: int = Field(default=64, ge=1, description="Requests waiting for one model.")
    max_output_tokens: int = Field(
        default=32768, ge=1, description="Most tokens one answer may have."
    )


class DoorSpec(Section):
    """One group of endpoints."""

    later_keys = frozenset({"models"})

    enabled: bool = Field(default=True, description="Answer at all.")


class MetricsDoorSpec(DoorSpec):
    """The Prometheus endpoint."""

    auth: bool = Field(
        default=True, description="Ask for a key with the role metrics, if keys exist."
    )


class EndpointsSpec(Section):
    """Which doors are open."""

    later_keys = frozenset({"embeddings", "rerank", "audio", "mcp"})

    chat: DoorSpec = Field(default=DoorSpec(), description="The chat endpoints.")
    metrics: MetricsDoorSpec = Field(default=MetricsDoorSpec(), description="GET /metrics.")


class ServerSpec(Section):
    """How the HTTP service behaves; addresses are flags, since they need a restart."""

    later_keys = frozenset({"cors", "tls", "trusted_hosts", "responses", "media"})

    endpoints: EndpointsSpec = Field(default=EndpointsSpec(), description="Which doors are open.")
    limits: LimitsSpec = Field(
        default=LimitsSpec(), description="Bounds on what one caller can ask."
    )
    drain: Seconds = Field(
        default=30.0, description="How long running streams may finish at shutdown."
    )
    heartbeat: Seconds = Field(
        default=5.0, gt=0, description="Silence after which a stream is kept alive."
    )
    allow_lan_without_keys: bool = Field(
        default=False, description="Serve addresses beyond loopback although no auth_keys exist."
    )


class AuthKeySpec(Section):
    """One API key: who it is, what it may do, and where its secret comes from."""

    later_keys = frozenset({"limits"})

    name: Name = Field(description="What logs and metrics call the key's owner.")
    key: KeySecret = Field(description="Where the secret comes from; never the secret itself.")
    roles: tuple[Role, ...] = Field(default=("inference",), description="What the key may do.")
    models: tuple[Name, ...] | None = Field(
        default=None, description="Only these models; none = all."
    )
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="Higher goes first; a request may only lower it.",
    )
    weight: float = Field(
        default=1.0, ge=0.001, le=1000, description="Share of a model when keys compete for it."
    )


class EngineSpec(Section):
    """How a model runs; changing any of this needs a load."""

    later_keys = frozenset({"memory", "kv_quantization", "adapter", "draft"})

    kind: Literal["batched", "simple"] = Field(
        default="batched",
        description="batched = continuous batching, simple = one request at a time.",
    )
    max_sequences: int = Field(default=32, ge=1, le=8192, description="Sequences decoded together.")
    prefill_chunk_tokens: int = Field(
        default=2048, ge=16, description="Most prompt tokens in one step; speed decides below it."
    )
    max_context_tokens: int | None = Field(
        default=None,
        ge=16,
        description="Longest prompt plus answer; none = what the model supports.",
    )
    trust_remote_code: bool = Field(
        default=False, description="Run Python code that comes with the model's files."
    )
    step_timeout: Seconds = Field(
        default=60.0, gt=0, description="A worker is replaced after this long in one step."
    )

    @property
    def num_slots(self) -> int:
        """How many requests run together."""
        return 1 if self.kind == "simple" else self.max_sequences


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
    """How conversations become prompts."""

    later_keys = frozenset({"reasoning_parser", "tool_parser", "thinking_budget"})

    template: str = Field(default="auto", description="auto, or the path of a Jinja template file.")
    template_kwargs: dict[str, Any] = Field(
        default={}, description="Values passed to the template."
    )


class ResidencySpec(Section):
    """When a model is in memory."""

    later_keys = frozenset({"pin", "idle_unload", "priority"})

    preload: bool = Field(default=False, description="Load it at start and keep it ready.")


class ModelLimitsSpec(Section):
    """Bounds for one model."""

    later_keys = frozenset({"max_concurrent"})

    queue: int | None = Field(
        default=None, ge=1, description="Requests waiting; none = the server's."
    )


class DefaultsSpec(Section):
    """Merged under every model, section by section."""

    later_keys = frozenset({"cache", "verify", "warm_prompts"})

    engine: EngineSpec = Field(default=EngineSpec(), description="How a model runs.")
    sampling: SamplingSpec = Field(
        default=SamplingSpec(), description="For requests that do not say."
    )
    chat: ChatSpec = Field(default=ChatSpec(), description="How conversations become prompts.")
    residency: ResidencySpec = Field(
        default=ResidencySpec(), description="When a model is in memory."
    )
    limits: ModelLimitsSpec = Field(default=ModelLimitsSpec(), description="Bounds for one model.")


class ModelSpec(DefaultsSpec):
    """One model the operator wants served."""

    later_keys = DefaultsSpec.later_keys | {"like"}
    later_values = MappingProxyType({"kind": ("vision", "embedding", "rerank", "stt", "tts")})

    name: Name = Field(description="What requests call it.")
    aliases: tuple[Name, ...] = Field(default=(), description="Further names for it.")
    source: SourceText = Field(
        description="hf:org/repo[@revision], path:/folder or path:/file.gguf, "
        "wheel:package==version[/file][#sha256=…], scripted:file.yaml"
    )
    kind: Literal["auto", "text"] = Field(default="auto", description="auto = what its files say.")

    def parsed_source(self) -> Source:
        """Return the source as a value."""
        return parse_source(self.source)

    def is_scripted(self) -> bool:
        """Say whether a script stands in for the model."""
        return isinstance(self.parsed_source(), ScriptedSource)


class Manifest(Section):
    """The whole file. The loader, not this class, sees to it that names are unique."""

    later_keys = frozenset({"memory", "cache_policies", "mcp_servers"})

    version: Annotated[Literal[1], BeforeValidator(_check_version)] = Field(
        description="The form of this file."
    )
    server: ServerSpec = Field(default=ServerSpec(), description="How the HTTP service behaves.")
    auth_keys: tuple[AuthKeySpec, ...] = Field(
        (), description="Who may call; none = loopback only."
    )
    defaults: DefaultsSpec = Field(default=DefaultsSpec(), description="Merged under every model.")
    models: tuple[ModelSpec, ...] = Field(default=(), description="What is served.")


def resolve_path(folder: Path, path: Path) -> Path:
    """Return `path` against the manifest's folder, unless it is absolute already."""
    return path if path.is_absolute() else folder / path
