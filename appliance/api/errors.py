"""Turn errors into HTTP: the one table of status, OpenAI type and code, and Anthropic type."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from litestar.types import Scope

from appliance import errors
from appliance.errors import ApplianceError


@dataclass(frozen=True)
class ErrorRow:
    """How one class of errors looks over HTTP."""

    status: int
    openai_type: str
    openai_code: str | None
    anthropic_type: str


_INVALID = "invalid_request_error"
_SERVER = "server_error"

ERROR_TABLE: dict[type[ApplianceError], ErrorRow] = {
    errors.ManifestError: ErrorRow(422, _INVALID, "manifest_invalid", _INVALID),
    errors.SourceError: ErrorRow(422, _INVALID, "source_unavailable", _INVALID),
    errors.AddressInUse: ErrorRow(500, _SERVER, "address_in_use", "api_error"),
    errors.StateFolderInUse: ErrorRow(500, _SERVER, "state_folder_in_use", "api_error"),
    errors.InvalidRequest: ErrorRow(400, _INVALID, None, _INVALID),
    errors.MediaRefused: ErrorRow(400, _INVALID, "media_not_supported", _INVALID),
    errors.ContextTooLong: ErrorRow(400, _INVALID, "context_length_exceeded", _INVALID),
    errors.ThreadsUnsupported: ErrorRow(400, _INVALID, "threads_unsupported", _INVALID),
    errors.ModelNotFound: ErrorRow(404, _INVALID, "model_not_found", "not_found_error"),
    errors.EndpointDisabled: ErrorRow(403, _INVALID, "endpoint_disabled", "permission_error"),
    errors.RequestNotFound: ErrorRow(404, _INVALID, "request_not_found", "not_found_error"),
    errors.ResponseNotFound: ErrorRow(404, _INVALID, "response_not_found", "not_found_error"),
    errors.RevisionNotFound: ErrorRow(404, _INVALID, "revision_not_found", "not_found_error"),
    errors.RouteNotFound: ErrorRow(404, _INVALID, "route_not_found", "not_found_error"),
    errors.Unauthenticated: ErrorRow(
        401, "authentication_error", "invalid_api_key", "authentication_error"
    ),
    errors.Forbidden: ErrorRow(403, "permission_error", "forbidden", "permission_error"),
    errors.PayloadTooLarge: ErrorRow(413, _INVALID, "payload_too_large", "request_too_large"),
    errors.BodyTimeout: ErrorRow(408, _INVALID, "body_timeout", _INVALID),
    errors.RequestCancelled: ErrorRow(499, _INVALID, "request_cancelled", "api_error"),
    errors.ManifestChanged: ErrorRow(412, _INVALID, "manifest_changed", _INVALID),
    errors.ManifestReadOnly: ErrorRow(409, _INVALID, "manifest_read_only", _INVALID),
    errors.QueueFull: ErrorRow(429, "rate_limit_error", "queue_full", "rate_limit_error"),
    errors.ModelNotReady: ErrorRow(503, _SERVER, "model_not_ready", "overloaded_error"),
    errors.Draining: ErrorRow(503, _SERVER, "shutting_down", "overloaded_error"),
    errors.DeadlineExceeded: ErrorRow(504, _SERVER, "deadline_exceeded", "timeout_error"),
    errors.OutOfMemoryBudget: ErrorRow(507, _SERVER, "out_of_memory_budget", "overloaded_error"),
    errors.LoadFailed: ErrorRow(500, _SERVER, "load_failed", "api_error"),
    errors.StepFailed: ErrorRow(500, _SERVER, "generation_failed", "api_error"),
    errors.WorkerDied: ErrorRow(500, _SERVER, "worker_died", "api_error"),
    errors.EngineStopped: ErrorRow(503, _SERVER, "engine_stopped", "overloaded_error"),
    errors.TextProcessFailed: ErrorRow(500, _SERVER, "text_process_failed", "api_error"),
    errors.HistoryFailed: ErrorRow(500, _SERVER, "history_failed", "api_error"),
    errors.StoreFailed: ErrorRow(500, _SERVER, "store_failed", "api_error"),
}

_UNKNOWN = ErrorRow(500, _SERVER, "internal_error", "api_error")


def error_row(error: BaseException) -> ErrorRow:
    """Return the row of an error's class; anything foreign is an internal error."""
    return ERROR_TABLE.get(type(error), _UNKNOWN) if isinstance(error, ApplianceError) else _UNKNOWN


def error_status(error: BaseException) -> int:
    """Return the HTTP status of an error; a wrong method on a known path is 405."""
    if isinstance(error, errors.RouteNotFound) and error.allowed:
        return 405
    return error_row(error).status


def error_headers(error: BaseException) -> dict[str, str]:
    """Return the headers that belong to an error."""
    headers: dict[str, str] = {}
    if isinstance(error, errors.Unavailable):
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after_seconds)))
    if isinstance(error, errors.EngineStopped):
        headers["retry-after"] = "1"
    # What is left of a body that was not read to its end would be taken for the next request.
    if isinstance(error, errors.Draining | errors.PayloadTooLarge | errors.BodyTimeout):
        headers["connection"] = "close"
    if isinstance(error, errors.Unauthenticated):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, errors.RouteNotFound) and error.allowed:
        headers["allow"] = ", ".join(error.allowed)
    return headers


def error_body(error: BaseException, scope: Scope) -> dict[str, Any]:
    """Return the body of an error in the shape of the dialect that the request is in."""
    if speaks_anthropic(scope):
        return anthropic_error(error, scope["state"]["request_id"])
    return openai_error(error)


def speaks_anthropic(scope: Scope) -> bool:
    """Say whether a request is to Messages, or says that it comes from a client of Anthropic's."""
    path = scope["path"]
    if path == "/v1/messages" or path.startswith("/v1/messages/"):
        return True
    return any(name == b"anthropic-version" for name, _ in scope["headers"])


def anthropic_error(error: BaseException, request_id: str) -> dict[str, Any]:
    """Return the body of an error in Anthropic's shape, worded as its clients recognise it."""
    kind = error_row(error).anthropic_type
    body: dict[str, Any] = {"type": kind, "message": _anthropic_message(error)}
    if isinstance(error, errors.ThreadsUnsupported):
        body["details"] = {"error_code": "thread_unsupported_request"}
    return {"type": "error", "error": body, "request_id": request_id}


def _anthropic_message(error: BaseException) -> str:
    if isinstance(error, errors.ContextTooLong):
        least = "at least " if error.is_at_least else ""
        asked = f"{least}{error.prompt_tokens} tokens"
        return f"prompt is too long: {asked} > {error.limit_tokens} maximum"
    return _message(error)


def _message(error: BaseException) -> str:
    """Return an error in words; foreign errors say nothing of their cause."""
    return str(error) if isinstance(error, ApplianceError) else "Internal server error."


def _param(error: BaseException) -> str | None:
    if isinstance(error, errors.MediaRefused):
        return error.place
    return error.param if isinstance(error, errors.InvalidRequest) else None


def openai_error(error: BaseException) -> dict[str, Any]:
    """Return the body of an error in OpenAI's shape."""
    row = error_row(error)
    body: dict[str, Any] = {
        "message": _message(error),
        "type": row.openai_type,
        "param": _param(error),
        "code": row.openai_code,
    }
    if isinstance(error, errors.ManifestError):
        body["problems"] = [asdict(problem) for problem in error.problems]
    return {"error": body}
