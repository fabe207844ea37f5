"""Define the manifest's section `server`: doors, limits and how long things may take."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.manifest.quantity import Bytes, Seconds
from appliance.manifest.spec.section import Later, Section
from appliance.manifest.spec.text import AllOrNames, HomePath, Host, HttpUrl, Origin

_CLOSED = {"enabled": False}


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

    enabled: bool = Field(default=True, description="Answer at all.")


class ModelDoorSpec(DoorSpec):
    """One group of endpoints, and the models behind it."""

    models: AllOrNames = Field(default="*", description="Only these models; '*' = all.")


class AudioDoorSpec(ModelDoorSpec):
    """The audio endpoints."""

    max_upload: Bytes = Field(default=25 * 2**20, gt=0, description="Largest audio file.")
    max_input_chars: int = Field(default=4096, ge=1, description="Longest text to speak.")


class MetricsDoorSpec(DoorSpec):
    """The Prometheus endpoint."""

    auth: bool = Field(
        default=True, description="Ask for a key with the role metrics, if keys exist."
    )


class EndpointsSpec(Section):
    """Which doors are open."""

    chat: ModelDoorSpec = Field(default=ModelDoorSpec(), description="The chat endpoints.")
    embeddings: Annotated[ModelDoorSpec, Later(_CLOSED)] = Field(
        default=ModelDoorSpec(enabled=False), description="The embedding endpoint."
    )
    rerank: Annotated[ModelDoorSpec, Later(_CLOSED)] = Field(
        default=ModelDoorSpec(enabled=False), description="The reranking endpoint."
    )
    audio: Annotated[AudioDoorSpec, Later(_CLOSED)] = Field(
        default=AudioDoorSpec(enabled=False), description="Transcription, translation and speech."
    )
    mcp: Annotated[DoorSpec, Later(_CLOSED)] = Field(
        default=DoorSpec(enabled=False), description="The endpoints for tool servers."
    )
    metrics: MetricsDoorSpec = Field(default=MetricsDoorSpec(), description="GET /metrics.")


class CorsSpec(Section):
    """Which web pages may call from a browser."""

    origins: tuple[Origin, ...] = Field(
        default=(), description="Such as https://chat.lan:3000; '*' = every page."
    )


class TlsSpec(Section):
    """A certificate and its key, as PEM files."""

    cert: HomePath = Field(description="File with the certificate and those that signed it.")
    key: HomePath = Field(description="File with the private key.")


class ResponsesSpec(Section):
    """What is kept of answers that later requests may refer to."""

    store: int = Field(
        default=10_000, ge=0, description="Answers kept for each key; the oldest go first."
    )
    max_age: Seconds = Field(
        default=7 * 86400.0, gt=0, description="How long one is kept after it was last used."
    )
    max_bytes: Bytes = Field(
        default=2**30, gt=0, description="Room for each key's answers; the oldest go first."
    )
    kind: Literal["memory", "sqlite"] = Field(
        default="sqlite", description="Where: memory is empty after a restart."
    )


class MediaSpec(Section):
    """How images, audio and video that requests name by address are fetched."""

    allow: tuple[HttpUrl, ...] = Field(
        default=(), description="Addresses in the local network; public ones need no entry."
    )
    max_bytes: Bytes = Field(default=50 * 2**20, gt=0, description="Largest file.")
    timeout: Seconds = Field(default=30.0, gt=0, description="Longest time a fetch may take.")


class ServerSpec(Section):
    """How the HTTP service behaves; addresses are flags, since they need a restart."""

    endpoints: EndpointsSpec = Field(default=EndpointsSpec(), description="Which doors are open.")
    cors: CorsSpec = Field(default=CorsSpec(), description="Which web pages may call.")
    limits: LimitsSpec = Field(
        default=LimitsSpec(), description="Bounds on what one caller can ask."
    )
    tls: TlsSpec | None = Field(default=None, description="Speak HTTPS; none = plain HTTP.")
    drain: Seconds = Field(
        default=30.0, description="How long running streams may finish at shutdown."
    )
    heartbeat: Seconds = Field(
        default=5.0, gt=0, description="Silence after which a stream is kept alive."
    )
    log_level: Literal["debug", "info", "warning", "error"] | None = Field(
        default=None, description="Least severe line to log; none = what the flag says."
    )
    allow_lan_without_keys: bool = Field(
        default=False, description="Serve addresses beyond loopback although no auth_keys exist."
    )
    trusted_hosts: Annotated[tuple[Host, ...], Later(())] = Field(
        default=(), description="Names that requests may call this machine by; none = any."
    )
    responses: ResponsesSpec = Field(
        default=ResponsesSpec(), description="What is kept of answers."
    )
    media: Annotated[MediaSpec, Later()] = Field(
        default=MediaSpec(), description="How media in requests are fetched."
    )
