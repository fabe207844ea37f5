"""Build the Litestar app of one manifest: routes, authentication, errors."""

from typing import Any

import msgspec
import structlog
from litestar import Litestar, Request, Response
from litestar.config.cors import CORSConfig
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.auth import Authenticate, KeyRing
from appliance.api.errors import error_body, error_headers, error_status
from appliance.errors import ApplianceError, InvalidRequest, RouteNotFound
from appliance.manifest.spec import ServerSpec

log = structlog.get_logger()


def build_app(handlers: list[HTTPRouteHandler], keys: KeyRing, server: ServerSpec) -> ASGIApp:
    """Return an app that is swapped as a whole when the manifest changes."""
    origins = list(server.cors.origins)
    return Litestar(
        handlers,
        middleware=[Authenticate(keys)],
        exception_handlers={
            ApplianceError: _answer,
            HTTPException: _answer,
            Exception: _answer,
        },
        request_max_body_size=server.limits.max_body,
        cors_config=CORSConfig(allow_origins=origins) if origins else None,
        openapi_config=None,
        logging_config=None,
        debug=False,
    )


def _answer(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    if isinstance(error, HTTPException) and error.status_code < 500:
        error = _translate(request, error)
    if not isinstance(error, ApplianceError):
        request_id = request.scope["state"]["request_id"]
        log.error("request_crashed", request_id=request_id, exc_info=error)
    return Response(
        msgspec.json.encode(error_body(error, request.scope)),
        status_code=error_status(error),
        headers=error_headers(error),
        media_type="application/json",
    )


def _translate(request: Request[Any, Any, Any], error: HTTPException) -> ApplianceError:
    if isinstance(error, MethodNotAllowedException | NotFoundException):
        allowed = (error.headers or {}).get("allow", "")
        names = tuple(name.strip() for name in allowed.split(",") if name.strip())
        return RouteNotFound(request.method, request.scope["path"], allowed=names)
    return InvalidRequest(error.detail)
