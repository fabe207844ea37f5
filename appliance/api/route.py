"""List every route with what it takes and how it may answer, for the OpenAPI document."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from appliance import errors
from appliance.api.admin.wire import LogLevelBody, RollbackBody
from appliance.api.anthropic.wire import CountBody, MessagesBody
from appliance.api.openai.chat.wire import ChatBody
from appliance.api.openai.completion.wire import CompletionBody
from appliance.api.openai.embedding import EmbeddingBody
from appliance.api.openai.model import (
    AnthropicModel,
    AnthropicModelPage,
    ModelEntry,
    ModelPage,
)
from appliance.api.openai.responses.wire import ResponsesBody
from appliance.api.openai.token import (
    DetokenizeAnswer,
    DetokenizeBody,
    TokenizeAnswer,
    TokenizeBody,
)
from appliance.errors import ApplianceError
from appliance.manifest.spec import Role

Errors = tuple[type[ApplianceError], ...]
Structs = type[msgspec.Struct] | tuple[type[msgspec.Struct], ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter in the query or a header; `kind` is what msgspec makes a schema of."""

    name: str
    kind: Any
    description: str
    place: Literal["query", "header"] = "query"


@dataclass(frozen=True)
class Route:
    """One operation. `path` is the handler's; `shown` is what people read instead of it.

    `role` None = open to everybody. `body` and `answer` are structs (several: one of them), or the
    media type of what is no JSON; an answer None = some JSON object. `can_stream`: it also answers
    with an event stream, if the body or the query says so.
    """

    method: str
    path: str
    summary: str
    shown: str = ""
    role: Role | None = "inference"
    body: Structs | str | None = None
    answer: Structs | str | None = None
    can_stream: bool = False
    parameters: tuple[Parameter, ...] = ()
    errors: Errors = ()

    @property
    def key(self) -> tuple[str, str]:
        """What its handler is found by."""
        return self.method, self.path


_NAMING: Errors = (errors.ModelNotFound, errors.EndpointDisabled)
_WORDING: Errors = (
    *_NAMING,
    errors.ContextTooLong,
    errors.ModelNotReady,
    errors.TextProcessFailed,
)
_ANSWERING: Errors = (
    *_WORDING,
    errors.MediaRefused,
    errors.QueueFull,
    errors.RequestCancelled,
    errors.DeadlineExceeded,
    errors.OutOfMemoryBudget,
    errors.LoadFailed,
    errors.StepFailed,
    errors.WorkerDied,
    errors.EngineStopped,
)
_KEEPING: Errors = (errors.ResponseNotFound, errors.StoreFailed)
_EDITING: Errors = (
    errors.ManifestError,
    errors.SourceError,
    errors.ManifestChanged,
    errors.ManifestReadOnly,
    errors.HistoryFailed,
)
_NOTING: Errors = (errors.HistoryFailed,)

_YAML, _EVENTS, _METRICS = "application/yaml", "text/event-stream", "text/plain"

_LIMIT = Parameter("limit", Annotated[int, Meta(ge=1, le=1000)], "Most models of one page.")
_AFTER = Parameter("after_id", str, "Begin after this model.")
_BEFORE = Parameter("before_id", str, "End before this model.")
_ITEMS = Parameter("limit", Annotated[int, Meta(ge=1, le=100)], "Most items of one page.")
_ORDER = Parameter("order", Literal["asc", "desc"], "Oldest or newest first.")
_AFTER_ITEM = Parameter("after", str, "Begin after this item.")
ANTHROPIC_VERSION = Parameter(
    "anthropic-version", str, "Asks for the answer in Anthropic's shape.", "header"
)
_IF_MATCH = Parameter(
    "if-match", str, "The etag that the manifest must have; none or * = any.", "header"
)
_WATCH = Parameter("watch", bool, "Send the status again whenever it changes, as events.")
_LINES = Parameter("lines", int, "How many of the newest lines.")
_FOLLOW = Parameter("follow", bool, "Go on with what comes, as events.")


def _answers(dialect: str, path: str, body: type[msgspec.Struct], more: Errors = ()) -> Route:
    summary, known = f"Answer in the dialect of {dialect}", (*_ANSWERING, *more)
    return Route("POST", path, summary, body=body, can_stream=True, errors=known)


def _kept(method: str, below: str, summary: str, *parameters: Parameter) -> Route:
    path = "/v1/responses/{response_id:str}" + below
    return Route(method, path, summary, parameters=parameters, errors=_KEEPING)


_INFERENCE = (
    _answers("OpenAI's Chat Completions", "/v1/chat/completions", ChatBody),
    _answers("OpenAI's Completions", "/v1/completions", CompletionBody),
    _answers("OpenAI's Responses", "/v1/responses", ResponsesBody, _KEEPING),
    _answers("Anthropic's Messages", "/v1/messages", MessagesBody),
    _kept("GET", "", "Return an answer that is kept"),
    _kept("DELETE", "", "Forget an answer that is kept"),
    _kept("POST", "/cancel", "End an answer that is made in the background"),
    _kept("GET", "/input_items", "List what an answer was made from", _ITEMS, _ORDER, _AFTER_ITEM),
    Route(
        "POST",
        "/v1/messages/count_tokens",
        "Count the tokens of a prompt; wakes no model",
        body=CountBody,
        errors=_WORDING,
    ),
    Route(
        "POST",
        "/tokenize",
        "Return the tokens of a text or conversation; wakes no model",
        body=TokenizeBody,
        answer=TokenizeAnswer,
        errors=_WORDING,
    ),
    Route(
        "POST",
        "/detokenize",
        "Return the text of tokens; wakes no model",
        body=DetokenizeBody,
        answer=DetokenizeAnswer,
        errors=_WORDING,
    ),
    Route(
        "POST",
        "/v1/embeddings",
        "Say that a model does not embed: none here does yet",
        body=EmbeddingBody,
        errors=_NAMING,
    ),
    Route(
        "GET",
        "/v1/models",
        "List the names that requests may use",
        answer=(ModelPage, AnthropicModelPage),
        parameters=(_LIMIT, _AFTER, _BEFORE, ANTHROPIC_VERSION),
    ),
    Route(
        "GET",
        "/v1/models/{name:path}",
        "Say what stands behind a name",
        answer=(ModelEntry, AnthropicModel),
        parameters=(ANTHROPIC_VERSION,),
        errors=(errors.ModelNotFound,),
    ),
    Route(
        "DELETE",
        "/v1/requests/{request_id:str}",
        "Cancel a running request by the id of its answer",
        errors=(errors.RequestNotFound,),
    ),
)

_PROBES = (
    Route("GET", "/openapi.json", "Return this document", role=None),
    Route("GET", "/health/live", "Say that the process answers", role=None),
    Route(
        "GET",
        "/health/ready",
        "Say whether every required model answers",
        role=None,
        errors=(errors.ModelNotReady,),
    ),
    Route("GET", "/health", "Say how every model is", role=None),
    Route("GET", "/metrics", "Return the metrics for Prometheus", role="metrics", answer=_METRICS),
)


def _admin(method: str, path: str, summary: str, **fields: Any) -> Route:  # noqa: ANN401
    return Route(method=method, path=f"/admin/v1/{path}", summary=summary, role="admin", **fields)


_ADMIN = (
    _admin("GET", "manifest", "Return the manifest's text, its revision and etag"),
    _admin(
        "PUT",
        "manifest",
        "Replace the manifest",
        body=_YAML,
        parameters=(_IF_MATCH,),
        errors=_EDITING,
    ),
    _admin(
        "POST",
        "plan",
        "Say what a manifest would change; without one, what is left to do",
        body=_YAML,
        errors=(errors.ManifestError, errors.SourceError),
    ),
    _admin("POST", "reload", "Read the manifest's file again", errors=_EDITING),
    _admin("GET", "history", "List the revisions, the newest first", errors=_NOTING),
    _admin(
        "GET",
        "history/{number:int}",
        "Return one revision with its text",
        errors=(errors.RevisionNotFound, *_NOTING),
    ),
    _admin(
        "POST",
        "rollback",
        "Go back to an earlier revision",
        body=RollbackBody,
        errors=(errors.RevisionNotFound, *_EDITING),
    ),
    _admin("GET", "audit", "List what admins did, the newest first", errors=_NOTING),
    _admin(
        "GET",
        "status",
        "Say what is wanted, what is there, and since when",
        can_stream=True,
        parameters=(_WATCH,),
    ),
    _admin(
        "POST",
        "models/{path:path}",
        "Load, unload, pin or unpin a model, whatever the manifest says",
        shown="/admin/v1/models/{name}/{verb}",
        errors=(errors.ModelNotFound, *_NOTING),
    ),
    _admin("GET", "requests", "List the running requests, the oldest first"),
    _admin(
        "DELETE",
        "requests/{request_id:str}",
        "Cancel anybody's request",
        errors=(errors.RequestNotFound, *_NOTING),
    ),
    _admin("GET", "keys", "Say what each key used"),
    _admin(
        "GET",
        "logs",
        "Return the newest lines of the log",
        can_stream=True,
        parameters=(_LINES, _FOLLOW),
    ),
    _admin("GET", "events", "Tell what happens to the appliance", answer=_EVENTS),
    _admin("PUT", "log-level", "Log more or less", body=LogLevelBody, errors=_NOTING),
    _admin("POST", "drain", "Let running requests end, and shut down", errors=_NOTING),
)

ROUTES: tuple[Route, ...] = (*_INFERENCE, *_PROBES, *_ADMIN)
"""Every route there can be; which are mounted, the manifest says."""
