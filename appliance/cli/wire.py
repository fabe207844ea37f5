"""Define what commands read of the appliance's answers; a newer one may send more."""

import msgspec


class ErrorBody(msgspec.Struct):
    """What went wrong, for a person."""

    message: str


class Refusal(msgspec.Struct):
    """The body of an error, and of an error event in a stream."""

    error: ErrorBody


class ProgressBody(msgspec.Struct):
    """How far some work has come; `total` 0 = unknown."""

    phase: str
    done: int = 0
    total: int = 0


class ModelHealth(msgspec.Struct):
    """One model in GET /health; times in seconds."""

    name: str
    phase: str
    reason: str = ""
    seconds_in_phase: float = 0.0
    is_required: bool = False
    requests: int = 0
    restarts: int = 0
    context_tokens: int | None = None
    memory_bytes: int = 0
    retry_in_seconds: float | None = None
    progress: ProgressBody | None = None


class Health(msgspec.Struct, omit_defaults=True):
    """The body of GET /health; without a key the appliance tells `status` alone."""

    status: str
    version: str = ""
    uptime_seconds: float | None = None
    models: list[ModelHealth] | None = None


class ModelEntry(msgspec.Struct):
    """One name in GET /v1/models; `root` is the model that it stands for."""

    id: str
    root: str = ""
    kind: str = ""
    state: str = ""
    context_length: int | None = None


class ModelPage(msgspec.Struct):
    """The body of GET /v1/models."""

    data: list[ModelEntry]


class Delta(msgspec.Struct):
    """What a chunk adds to the answer."""

    content: str | None = None


class Choice(msgspec.Struct):
    """One answer of a chunk."""

    delta: Delta = msgspec.field(default_factory=Delta)
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    """One event of a chat stream."""

    choices: list[Choice] = []
    error: ErrorBody | None = None
