"""Whatever refuses a request to Messages, its client gets Anthropic's shape."""

import asyncio
import json
from typing import Any, cast

import pytest
from anthropic.types.shared import ErrorResponse
from litestar.types import ASGIApp

from appliance.api.edge import Edge, Refusal
from appliance.api.errors import ERROR_TABLE, error_body, error_row
from appliance.api.gate import Gate
from appliance.errors import (
    ApplianceError,
    ContextTooLong,
    DeadlineExceeded,
    InvalidRequest,
    ModelNotFound,
    OutOfMemoryBudget,
    PayloadTooLarge,
    Unauthenticated,
)

# The reference names it, but the package's types do not.
_UNTYPED = "request_too_large"


def scope_of(path: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": list(headers),
        "state": {"request_id": "r1"},
    }


@pytest.mark.parametrize(
    ("scope", "is_anthropic"),
    [
        (scope_of("/v1/messages"), True),
        (scope_of("/v1/messages/count_tokens"), True),
        (scope_of("/v1/messages/batches/unknown"), True),
        (scope_of("/v1/models", (b"anthropic-version", b"2023-06-01")), True),
        (scope_of("/v1/models"), False),
        (scope_of("/v1/chat/completions"), False),
        (scope_of("/v1/messages-of-others"), False),
    ],
)
def test_shape_is_that_of_the_dialect(scope: dict[str, Any], is_anthropic: bool) -> None:
    body = error_body(ModelNotFound("m"), cast(Any, scope))

    assert ("request_id" in body) is is_anthropic
    assert ("code" in body["error"]) is not is_anthropic


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (Unauthenticated(), "authentication_error", "Missing or unknown API key."),
        (ModelNotFound("m"), "not_found_error", "The model 'm' does not exist."),
        (PayloadTooLarge(9), "request_too_large", "The request body is larger than 9 bytes."),
        (DeadlineExceeded(2.0), "timeout_error", "The request took longer than 2 s."),
        (InvalidRequest("a.b: no.", param="a.b"), "invalid_request_error", "a.b: no."),
        (ValueError("secret"), "api_error", "Internal server error."),
        (
            ContextTooLong(limit_tokens=100, prompt_tokens=101, is_at_least=True),
            "invalid_request_error",
            "prompt is too long: at least 101 tokens > 100 maximum",
        ),
    ],
)
def test_error_has_this_shape(error: Exception, kind: str, message: str) -> None:
    body = error_body(error, cast(Any, scope_of("/v1/messages")))

    assert body == {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "r1",
    }


@pytest.mark.parametrize("kind", sorted({row.anthropic_type for row in ERROR_TABLE.values()}))
def test_official_types_accept_every_error(kind: str) -> None:
    body = {"type": "error", "error": {"type": kind, "message": "x"}, "request_id": "r1"}

    if kind != _UNTYPED:
        ErrorResponse.model_validate(body, strict=True)


@pytest.mark.parametrize(
    ("error", "is_draining", "status", "kind"),
    [
        pytest.param(RuntimeError("secret"), False, 500, "api_error", id="crash"),
        pytest.param(
            OutOfMemoryBudget(needed_bytes=9, limit_bytes=1),
            False,
            507,
            "overloaded_error",
            id="late refusal",
        ),
        pytest.param(RuntimeError(), True, 503, "overloaded_error", id="drain"),
    ],
)
def test_edge_answers_in_the_dialect(
    error: Exception, is_draining: bool, status: int, kind: str
) -> None:
    sent: list[dict[str, Any]] = []
    refusals: list[Refusal] = []

    async def fail(scope: object, receive: object, send: object) -> None:
        raise error

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    gate = Gate(cast(ASGIApp, fail))
    gate.is_draining = is_draining
    edge = Edge(cast(ASGIApp, fail), gate, refusals.append, is_trusted=False)
    asyncio.run(edge(cast(Any, scope_of("//v1/messages/")), cast(Any, None), cast(Any, send)))

    start, body = sent
    answer = json.loads(body["body"])
    assert (start["status"], refusals[0].status) == (status, status)
    assert answer["error"]["type"] == kind
    assert answer["request_id"].encode() == dict(start["headers"])[b"request-id"]
    assert b"secret" not in body["body"]


def test_unavailable_is_overloaded() -> None:
    types = {
        row.anthropic_type
        for kind, row in ERROR_TABLE.items()
        if issubclass(kind, ApplianceError) and row.status in (503, 507)
    }

    assert types == {"overloaded_error"}
    assert error_row(RuntimeError()).anthropic_type == "api_error"
