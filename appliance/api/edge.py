"""Give every request its id, tidy it, refuse in a drain, and answer what escapes the framework."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from litestar.enums import HttpMethod, ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from appliance.api.body import JsonResponse
from appliance.api.errors import error_body, error_headers, error_status
from appliance.api.gate import Gate
from appliance.errors import ApplianceError, Draining
from appliance.pipeline.pipeline import new_request_id

_ALWAYS_OPEN = ("/health", "/metrics")
_PRINTABLE = re.compile(rb"[\x21-\x7e]{1,128}")
# Clients differ in whether their base URL ends in /v1.
_UNVERSIONED = re.compile("/(chat/completions|completions|messages|models|requests|responses)(/|$)")

log = structlog.get_logger()


@dataclass(frozen=True)
class Refusal:
    """A request that was answered with an error before any generation began."""

    path: str
    status: int
    request_id: str
    client_id: str | None


class Edge:
    """The HTTP edge, an ASGI wrapper. `is_trusted` marks callers of a private socket as admins.

    `on_refused` hears of every error answer that no generation accounts for. What a request
    holds is let go by the plain function in its state's `on_close`, called on every way out.
    """

    def __init__(
        self, app: ASGIApp, gate: Gate, on_refused: Callable[[Refusal], None], *, is_trusted: bool
    ) -> None:
        self._app = app
        self._gate = gate
        self._on_refused = on_refused
        self._is_trusted = is_trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; nothing but a cancellation leaves."""
        request_id = new_request_id()
        client_id = _client_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        state["client_request_id"] = client_id
        state["is_trusted"] = self._is_trusted
        _tidy(scope)
        has_started = False
        status = 0
        own = (b"request-id", request_id.encode())
        echoed = (b"x-request-id", (client_id or request_id).encode())

        async def send_with_ids(message: Message) -> None:
            nonlocal has_started, status
            if message["type"] == "http.response.start":
                has_started, status = True, message["status"]
                message["headers"] = [*message["headers"], own, echoed]
            await send(message)

        try:
            is_refused = self._gate.is_draining and not scope["path"].startswith(_ALWAYS_OPEN)
            app = _refuse_in_drain if is_refused else self._app
            await app(scope, receive, send_with_ids)
        except asyncio.CancelledError:
            raise
        except ApplianceError as error:
            await _answer(scope, receive, send_with_ids, error, has_started=has_started)
        except Exception as error:
            log.exception("request_crashed", request_id=request_id)
            await _answer(scope, receive, send_with_ids, error, has_started=has_started)
        finally:
            if (on_close := state.get("on_close")) is not None:
                on_close()
            elif status >= 400:
                self._on_refused(Refusal(scope["path"], status, request_id, client_id))


async def _refuse_in_drain(scope: Scope, receive: Receive, send: Send) -> None:
    raise Draining


def _tidy(scope: Scope) -> None:
    """Forgive slashes too many and no /v1, and serve HEAD as GET: the server drops the body."""
    path = re.sub("/{2,}", "/", scope["path"]).rstrip("/") or "/"
    scope["path"] = f"/v1{path}" if _UNVERSIONED.match(path) else path
    if scope["type"] == ScopeType.HTTP and scope["method"] == HttpMethod.HEAD:
        scope["method"] = HttpMethod.GET


async def _answer(
    scope: Scope, receive: Receive, send: Send, error: BaseException, *, has_started: bool
) -> None:
    if has_started:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    else:
        answer = JsonResponse(error_body(error, scope), error_status(error), error_headers(error))
        await answer(scope, receive, send)


def _client_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _PRINTABLE.fullmatch(value):
            return value.decode()
    return None
