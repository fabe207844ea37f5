"""Name everything that can go wrong, in one tree; nothing here knows HTTP.

ApplianceError
|- ManifestError              the operator's file is wrong; carries every problem found
|- SourceError                a model's files cannot be had, or are not what they should be
|- StartError                 the appliance cannot start here; never reaches HTTP
|  |- AddressInUse            the address cannot be listened on
|  |- StateFolderInUse        another appliance has the state folder, or it cannot be used
|- RequestError               the caller is wrong; never retried
|  |- InvalidRequest          a field is wrong, missing or cannot be honoured
|  |- MediaRefused            the model takes no image, sound, film or file
|  |- ContextTooLong          prompt and answer do not fit the model's context
|  |- ThreadsUnsupported      a conversation was meant to be kept here under an id
|  |- ModelNotFound           no model or alias of that name
|  |- EndpointDisabled        the operator does not serve this model at this endpoint
|  |- RequestNotFound         no running request of that id
|  |- ResponseNotFound        no stored response, or item of one, has that id
|  |- RevisionNotFound        no manifest of that number was ever accepted
|  |- RouteNotFound           no such path or method
|  |- Unauthenticated         no key, or an unknown one
|  |- Forbidden               the key may not do this
|  |- PayloadTooLarge         the body is over the limit
|  |- BodyTimeout             the body did not arrive in time
|  |- RequestCancelled        somebody with the right to do so cancelled it
|  |- Conflict                the request does not fit what is in force
|     |- ManifestChanged      somebody else changed the manifest in the meantime
|     |- ManifestReadOnly     the manifest's file cannot be written
|- Unavailable                right request, wrong moment; carries when to try again
|  |- QueueFull               the model's queue is full
|  |- ModelNotReady           the model is loading, failed, or being replaced
|  |- Draining                the appliance is shutting down
|  |- DeadlineExceeded        the answer took longer than allowed
|  |- OutOfMemoryBudget       the request alone needs more memory than its model may use
|- EngineError                we are wrong; logged once
   |- LoadFailed              a model could not be loaded
   |- StepFailed              one request's generation failed
   |- WorkerDied              the worker process is gone
   |- EngineStopped           the engine was closed under the request
   |- TextProcessFailed       the process that renders templates failed
   |- HistoryFailed           the revision history cannot be read or written
   |- StoreFailed             the stored responses cannot be read or written
"""

from dataclasses import dataclass


class ApplianceError(Exception):
    """The root: everything the appliance raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a manifest: where and why; `line` counts from 1, 0 = the whole file."""

    file: str
    line: int
    path: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.path}: {self.reason}" if self.path else f"{where}: {self.reason}"


class ManifestError(ApplianceError):
    """The operator's file is wrong; the manifest in force stays in force."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class SourceError(ApplianceError):
    """A model's files cannot be had or used; `retryable` says whether waiting may help."""

    def __init__(self, source: str, reason: str, *, retryable: bool = False) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason
        self.retryable = retryable


class StartError(ApplianceError):
    """The machine is not as the appliance needs it; raised before anything is served."""


class AddressInUse(StartError):
    """The address cannot be listened on; most often another process has it."""


class StateFolderInUse(StartError):
    """Another appliance runs on this state folder, or it cannot be used."""


class RequestError(ApplianceError):
    """The caller is wrong; sending the same request again cannot help."""


class InvalidRequest(RequestError):
    """A field is wrong, missing or cannot be honoured; `param` is its path in the body."""

    def __init__(self, reason: str, *, param: str | None = None) -> None:
        super().__init__(reason)
        self.param = param


class MediaRefused(RequestError):
    """The model cannot take what is not text; `place` is where it stands in the body."""

    def __init__(self, place: str) -> None:
        super().__init__(f"This model takes only text; it cannot take what stands at {place}.")
        self.place = place


class ContextTooLong(RequestError):
    """The prompt, or prompt and answer together, exceed the context; all counts in tokens.

    `is_at_least`: nobody counted to the end, so the prompt may have more than `prompt_tokens`.
    """

    def __init__(
        self,
        *,
        limit_tokens: int,
        prompt_tokens: int,
        max_tokens: int = 0,
        is_at_least: bool = False,
    ) -> None:
        least = "at least " if is_at_least else ""
        asked = f"{prompt_tokens} in the messages"
        if max_tokens:
            total = prompt_tokens + max_tokens
            asked = f"{least}{total} tokens ({asked}, {max_tokens} in the completion)"
        else:
            asked = f"{least}{prompt_tokens} tokens in the messages"
        super().__init__(
            f"This model's maximum context length is {limit_tokens} tokens. "
            f"However, you requested {asked}. Please reduce the length of the messages"
            f"{' or completion' if max_tokens else ''}."
        )
        self.limit_tokens = limit_tokens
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.is_at_least = is_at_least


class ThreadsUnsupported(RequestError):
    """Messages was asked to keep a conversation; its clients then send all of it."""

    def __init__(self) -> None:
        super().__init__("thread: conversations are not kept here; send the whole of it.")


class ModelNotFound(RequestError):
    """No model or alias has this name."""

    def __init__(self, model: str, *, suggestion: str | None = None) -> None:
        hint = f" Did you mean '{suggestion}'?" if suggestion else ""
        super().__init__(f"The model '{model}' does not exist.{hint}")
        self.model = model
        self.suggestion = suggestion


class EndpointDisabled(RequestError):
    """The manifest does not open this group of endpoints to the model."""

    def __init__(self, endpoint: str, model: str) -> None:
        super().__init__(f"The model '{model}' is not served at the {endpoint} endpoints.")
        self.endpoint = endpoint
        self.model = model


class RequestNotFound(RequestError):
    """No request of this id is running."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"No request '{request_id}' is running.")
        self.request_id = request_id


class ResponseNotFound(RequestError):
    """Nothing of this id is stored for this key: never was, or is deleted or too old by now."""

    def __init__(self, response_id: str) -> None:
        super().__init__(f"Nothing is stored under the id '{response_id}'.")
        self.response_id = response_id


class RevisionNotFound(RequestError):
    """The history has no such revision."""

    def __init__(self, number: int) -> None:
        super().__init__(f"There is no revision {number}.")
        self.number = number


class RouteNotFound(RequestError):
    """No handler for this path (or, with `allowed`, not for this method)."""

    def __init__(self, method: str, path: str, *, allowed: tuple[str, ...] = ()) -> None:
        hint = "GET /openapi.json lists what there is."
        if allowed:
            hint = f"Allowed: {', '.join(allowed)}."
        elif path.startswith("/v1/v1/"):
            hint = f"Did you mean {path.removeprefix('/v1')}?"
        super().__init__(f"Nothing answers {method} {path} here. {hint}")
        self.method = method
        self.path = path
        self.allowed = allowed


class Unauthenticated(RequestError):
    """No API key was sent, or no such key exists."""

    def __init__(self, reason: str = "Missing or unknown API key.") -> None:
        super().__init__(reason)


class Forbidden(RequestError):
    """The key is known and may not do this."""


class PayloadTooLarge(RequestError):
    """The body is larger than the manifest allows."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"The request body is larger than {limit_bytes} bytes.")
        self.limit_bytes = limit_bytes


class BodyTimeout(RequestError):
    """The body did not arrive within the time allowed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The request body did not arrive within {seconds:g} s.")
        self.seconds = seconds


class RequestCancelled(RequestError):
    """The request was cancelled by its own key or an admin."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"Request '{request_id}' was cancelled.")
        self.request_id = request_id


class Conflict(RequestError):
    """The request does not fit what is in force; its sender must look again."""


class ManifestChanged(Conflict):
    """The manifest is not the one the caller looked at; `etag` is that of the one in force."""

    def __init__(self, etag: str) -> None:
        super().__init__(
            "The manifest has changed since you read it; nothing was written. "
            f"Read it again (its etag is now {etag}) and repeat your change."
        )
        self.etag = etag


class ManifestReadOnly(Conflict):
    """The manifest's file cannot be written, so what is in force stays; `reason` says why."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"The manifest {file} cannot be written: {reason}.")
        self.file = file
        self.reason = reason


class Unavailable(ApplianceError):
    """The request is right and may succeed later; `retry_after_seconds` says when to try."""

    def __init__(self, reason: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class QueueFull(Unavailable):
    """As many requests wait for the model as its queue may hold."""

    def __init__(self, model: str, limit: int) -> None:
        super().__init__(f"The queue of model '{model}' is full ({limit} requests).")
        self.model = model
        self.limit = limit


class ModelNotReady(Unavailable):
    """The model is not in memory now; `reason` says what it is doing or why it failed."""

    def __init__(self, model: str, reason: str, *, retry_after_seconds: float = 5.0) -> None:
        super().__init__(
            f"Model '{model}' is not ready: {reason}.", retry_after_seconds=retry_after_seconds
        )
        self.model = model


class Draining(Unavailable):
    """The appliance is shutting down and takes no new requests."""

    def __init__(self) -> None:
        super().__init__("The server is shutting down.", retry_after_seconds=5.0)


class DeadlineExceeded(Unavailable):
    """The answer was not complete within the time allowed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The request took longer than {seconds:g} s.")
        self.seconds = seconds


class OutOfMemoryBudget(Unavailable):
    """The request, even alone, needs more memory than its model's share; both in bytes."""

    def __init__(self, *, needed_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"The request needs {needed_bytes} bytes of memory; its model may use {limit_bytes}. "
            "A shorter prompt or a lower max_tokens may fit.",
            retry_after_seconds=60.0,
        )
        self.needed_bytes = needed_bytes
        self.limit_bytes = limit_bytes


class EngineError(ApplianceError):
    """We are wrong: a model, its worker or the text process failed."""


class LoadFailed(EngineError):
    """The model could not be loaded; not `retryable` means: wait for a new manifest."""

    def __init__(self, model: str, reason: str, *, retryable: bool) -> None:
        super().__init__(f"Model '{model}' could not be loaded: {reason}")
        self.model = model
        self.reason = reason
        self.retryable = retryable


class StepFailed(EngineError):
    """Generation of this request failed inside the engine."""


class WorkerDied(EngineError):
    """The model's worker process ended while it held the request; `reason` says how."""

    def __init__(self, model: str, reason: str = "ended unexpectedly") -> None:
        super().__init__(f"The worker of model '{model}' {reason}.")
        self.model = model
        self.reason = reason


class EngineStopped(EngineError):
    """The engine was closed while it held the request."""


class TextProcessFailed(EngineError):
    """The process that renders templates and counts tokens failed."""


class HistoryFailed(EngineError):
    """The revision history cannot be read or written: most often, the disk is full."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The revision history cannot be used: {reason}.")
        self.reason = reason


class StoreFailed(EngineError):
    """The stored responses cannot be read or written: most often, the disk is full."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The stored responses cannot be used: {reason}.")
        self.reason = reason
