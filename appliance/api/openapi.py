"""Describe the HTTP API as an OpenAPI document, generated from the routes and their structs."""

import asyncio
import json
import re
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance import __version__, errors
from appliance.api.body import JsonResponse
from appliance.api.errors import ERROR_TABLE
from appliance.api.route import ANTHROPIC_VERSION, ROUTES, Errors, Parameter, Route, Structs

_REF = "#/components/schemas/{name}"
_JSON, _EVENTS = "application/json", "text/event-stream"
_ABOUT = (
    "Names that requests may use come from one manifest. Where it has `auth_keys`, a key comes as "
    "`Authorization: Bearer` or `x-api-key`, and needs the role in `x-required-role`; else nobody "
    "needs one. Answers carry `request-id`; an `x-request-id` of the client's comes back."
)
_PATH_KINDS: dict[str, dict[str, Any]] = {
    "number": {"type": "integer", "minimum": 0},
    "verb": {"type": "string", "enum": ["load", "unload", "pin", "unpin"]},
}
_TEXT = {"type": "string", "minLength": 1}


class ErrorDetail(msgspec.Struct):
    """What went wrong; `param` names the field that is to blame."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct):
    """An error in OpenAI's shape."""

    error: ErrorDetail


class AnthropicErrorDetail(msgspec.Struct):
    """What went wrong."""

    type: str
    message: str


class AnthropicErrorBody(msgspec.Struct):
    """An error in Anthropic's shape."""

    type: str
    error: AnthropicErrorDetail
    request_id: str


_ERRORS = (ErrorBody, AnthropicErrorBody)


class OpenApiRoutes:
    """The handler of the document, which describes `handlers` and itself. Event loop only."""

    def __init__(self, handlers: Iterable[HTTPRouteHandler]) -> None:
        self._handlers = tuple(handlers)
        self._document: dict[str, Any] | None = None

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        return [get("/openapi.json")(self._get)]

    async def _get(self) -> ASGIApp:
        if self._document is None:
            keys = {("GET", "/openapi.json"), *handler_keys(self._handlers)}
            self._document = await asyncio.to_thread(partial(openapi_document, keys))
        return JsonResponse(self._document)


def handler_keys(handlers: Iterable[HTTPRouteHandler]) -> set[tuple[str, str]]:
    """Return the method and path of each handler, as `Route.key` has them."""
    return {
        (str(method), path)
        for handler in handlers
        for method in handler.http_methods
        for path in handler.paths
    }


def openapi_document(keys: set[tuple[str, str]] | None = None) -> dict[str, Any]:
    """Return the document (OpenAPI 3.1.1) of the routes with these keys, None = all there can be.

    Raises KeyError for a route that is not in the table.
    """
    table = {route.key: route for route in ROUTES}
    routes = [table[key] for key in sorted(table.keys() if keys is None else keys)]
    schemas = _Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schemas)
        paths.setdefault(shown_path(route), {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.1",
        "info": {"title": "vllm-mlx", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def openapi_text() -> str:
    """Return the document of every route as the text of its file."""
    return json.dumps(openapi_document(), indent=2, ensure_ascii=False) + "\n"


def shown_path(route: Route) -> str:
    """Return a route's path as OpenAPI writes it: parameters without their kinds."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", route.shown or route.path)


class _Schemas:
    """The schemas of every struct that some routes name."""

    def __init__(self, routes: list[Route]) -> None:
        contents = (each for route in routes for each in (route.body, route.answer, _ERRORS))
        wanted = sorted({kind for each in contents for kind in _structs(each)}, key=repr)
        refs, components = msgspec.json.schema_components(wanted, ref_template=_REF)
        self._refs = dict(zip(wanted, refs, strict=True))
        self.components = dict(sorted(components.items()))

    def media(self, content: Structs | str | None) -> dict[str, Any]:
        """Return the content of structs, of a text of some media type, or of any JSON object.

        Events get no schema: readers of the document take it for that of each one.
        """
        if content == _EVENTS:
            return {content: {}}
        if isinstance(content, str):
            return {content: {"schema": {"type": "string"}}}
        refs = [self._refs[kind] for kind in _structs(content)] or [{"type": "object"}]
        return {_JSON: {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}}

    def error(self, route: Route) -> dict[str, Any]:
        """Return the content of an error in the dialects that the route may speak."""
        if ANTHROPIC_VERSION in route.parameters:
            return self.media(_ERRORS)
        is_anthropic = route.path.startswith("/v1/messages")
        return self.media(AnthropicErrorBody if is_anthropic else ErrorBody)


def _structs(content: Structs | str | None) -> tuple[type[msgspec.Struct], ...]:
    if content is None or isinstance(content, str):
        return ()
    return content if isinstance(content, tuple) else (content,)


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{shown_path(route)}").strip("_"),
        "summary": route.summary,
        "tags": [route.role or "probe"],
        "parameters": [*_path_parameters(route), *map(_parameter, route.parameters)],
        "responses": _responses(route, schemas),
        "security": [],
    }
    if route.role is not None:
        operation |= {"security": [{"bearer": []}, {"apiKey": []}], "x-required-role": route.role}
    if route.body is not None:
        is_needed = not isinstance(route.body, str)
        operation["requestBody"] = {"required": is_needed, "content": schemas.media(route.body)}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PATH_KINDS.get(name, _TEXT)}
        for name in re.findall(r"\{(\w+)\}", shown_path(route))
    ]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
        "schema": msgspec.json.schema(parameter.kind),
    }


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    content = schemas.media(route.answer)
    if route.can_stream:
        content |= schemas.media(_EVENTS)
    responses: dict[str, Any] = {"200": {"description": "The answer.", "content": content}}
    reasons: dict[int, set[str]] = {}
    for kind in _possible_errors(route):
        row = ERROR_TABLE[kind]
        reasons.setdefault(row.status, set()).add(row.openai_code or row.openai_type)
    for status, codes in sorted(reasons.items()):
        description = ", ".join(sorted(codes))
        responses[str(status)] = {"description": description, "content": schemas.error(route)}
    return responses


def _possible_errors(route: Route) -> Errors:
    found = route.errors
    if route.role is not None:
        found += (errors.Unauthenticated, errors.Forbidden, errors.Draining)
    if route.body is not None:
        found += (errors.PayloadTooLarge, errors.BodyTimeout)
    if route.body is not None or route.parameters or "{" in route.path:
        found += (errors.InvalidRequest,)
    return found
