"""Define what commands read of the appliance's answers; a newer one may send more."""

from typing import Any

import msgspec

from appliance.errors import Problem


class ErrorBody(msgspec.Struct):
    """What went wrong, for a person; `problems` are those of a manifest."""

    message: str
    problems: list[Problem] | None = None


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


class ManifestBody(msgspec.Struct):
    """The manifest in force; `file` is where the appliance keeps it."""

    etag: str
    text: str
    number: int | None = None
    file: str | None = None


class ActionBody(msgspec.Struct):
    """One step of a plan; memory in bytes."""

    verb: str
    model: str
    reason: str = ""
    before_bytes: int = 0
    peak_bytes: int = 0
    after_bytes: int = 0
    missing_bytes: int = 0


class PlanBody(msgspec.Struct):
    """What a manifest would change; `is_quiet`: nothing that runs."""

    actions: list[ActionBody]
    revision: str | None = None
    budget_bytes: int | None = None
    is_quiet: bool = False


class ChangeBody(msgspec.Struct):
    """The revision that a change made."""

    number: int
    is_changed: bool = True


class RevisionBody(msgspec.Struct):
    """One accepted manifest; `text` only where one is asked for."""

    number: int
    revision: str = ""
    at: float | str = 0.0
    who: str = ""
    how: str = ""
    is_in_force: bool = False
    diff: str = ""
    text: str | None = None


class HistoryBody(msgspec.Struct):
    """The accepted manifests, the newest first."""

    revisions: list[RevisionBody]


class OverrideBody(msgspec.Struct):
    """What an operator wants of a model instead of what the manifest says; None = nothing."""

    model: str
    override: str | None = None


class ConditionBody(msgspec.Struct):
    """One thing that has to be so before a model is ready."""

    kind: str
    is_met: bool | None = None
    reason: str | None = None
    since: float | str | None = None


class ModelStatusBody(msgspec.Struct):
    """One model: what is wanted of it, what it is."""

    name: str
    phase: str
    wish: str = "may"
    desired_key: str | None = None
    observed_key: str | None = None
    reason: str | None = None
    conditions: list[ConditionBody] = []
    requests: int = 0
    restarts: int = 0
    worker_pid: int | None = None
    context_tokens: int | None = None
    memory_bytes: int | None = None
    held_bytes: int | None = None
    retry_in_seconds: float | None = None
    last_error: str | None = None
    override: str | None = None
    progress: ProgressBody | None = None
    profiles: list[str] = []


class ReloadBody(msgspec.Struct):
    """How the last reading of the manifest's file went."""

    is_ok: bool = True
    at: float | str | None = None
    problems: list[str] = []


class StatusBody(msgspec.Struct):
    """The body of GET /admin/v1/status, and of each of its events."""

    state: str
    revision: str | None = None
    number: int | None = None
    file: str | None = None
    reload: ReloadBody = msgspec.field(default_factory=ReloadBody)
    budget_bytes: int | None = None
    held_bytes: int = 0
    models: list[ModelStatusBody] = []


class RequestBody(msgspec.Struct):
    """One request at work."""

    id: str
    model: str
    key: str | None = None
    state: str = ""
    age_seconds: float = 0.0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class RequestsBody(msgspec.Struct):
    """The requests at work."""

    requests: list[RequestBody]


class LogBody(msgspec.Struct):
    """The last lines of the log."""

    lines: list[dict[str, Any]]
