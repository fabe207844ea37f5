"""Answer for what runs: status, models, requests, logs, drain."""

import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any, cast

import msgspec
from litestar import Request, delete, get, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.admin.audit import note
from appliance.api.admin.control import Control
from appliance.api.admin.stream import EventStream
from appliance.api.admin.whole import to_its_end
from appliance.api.admin.wire import LogLevelBody
from appliance.api.body import BodyReader, JsonResponse
from appliance.errors import InvalidRequest, ModelNotFound
from appliance.manifest.spec import LimitsSpec, ModelSpec
from appliance.pipeline.generation import Generation
from appliance.pipeline.pipeline import KeyUsage
from appliance.reconcile.desired import spec_key
from appliance.reconcile.history import Override
from appliance.telemetry.tail import LogTail

AnyRequest = Request[Any, Any, Any]

_ROLE = {"role": "admin"}
_WISHES = {"load": "must", "pin": "must", "unload": "must_not"}
_EVENTS = frozenset(
    {
        "manifest_accepted",
        "manifest_rejected",
        "action_started",
        "action_failed",
        "model_phase_changed",
        "model_failed",
        "worker_lost",
        "tls_replaced",
        "tls_rejected",
        "shutdown_requested",
    }
)
"""What happens to the appliance, not to one request."""


class OperationRoutes:
    """The handlers of status, models, requests and logs. Event loop only."""

    def __init__(self, control: Control, limits: LimitsSpec) -> None:
        self._control = control
        self._level_body = BodyReader(LogLevelBody, "admin", limits, control.metrics)

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        acting = {"opt": _ROLE, "status_code": 200}
        return [
            get("/admin/v1/status", opt=_ROLE)(self._status),
            get("/admin/v1/requests", opt=_ROLE)(self._requests),
            delete("/admin/v1/requests/{request_id:str}", **acting)(self._cancel),  # type: ignore[arg-type]
            get("/admin/v1/logs", opt=_ROLE)(self._logs),
            get("/admin/v1/events", opt=_ROLE)(self._events),
            get("/admin/v1/keys", opt=_ROLE)(self._keys),
            put("/admin/v1/log-level", **acting)(self._set_level),  # type: ignore[arg-type]
            post("/admin/v1/drain", **acting)(self._drain),  # type: ignore[arg-type]
            post("/admin/v1/models/{path:path}", **acting)(self._change_model),  # type: ignore[arg-type]
        ]

    async def _status(self, watch: bool = False) -> ASGIApp:
        board = self._control.reconciler.board
        if not watch:
            return JsonResponse(board.status())
        texts = (msgspec.json.encode(status) async for status in board.watch())
        return EventStream(texts, self._is_ending)

    async def _change_model(self, request: AnyRequest, path: str) -> ASGIApp:
        name, _, verb = path.strip("/").rpartition("/")
        if verb not in (*_WISHES, "unpin"):
            raise InvalidRequest(f"There is nothing called '{verb}' to do with a model.")
        spec = self._find(name)
        wish = _WISHES.get(verb)
        override = None
        if wish is not None:
            override = Override(spec.name, cast(Any, wish), spec_key(spec))
        await to_its_end(self._wish(request, verb, spec, override))
        return JsonResponse({"model": spec.name, "override": wish})

    async def _wish(
        self, request: AnyRequest, verb: str, spec: ModelSpec, override: Override | None
    ) -> None:
        await self._control.reconciler.override(spec, override)
        await note(self._control.records, request, verb, subject=spec.name)

    def _find(self, name: str) -> ModelSpec:
        served = self._control.registry.find(name)
        models = self._control.reconciler.loaded.manifest.models
        for spec in models:
            if spec.name == served.resident.spec.name:
                return spec
        raise ModelNotFound(name)

    async def _requests(self) -> ASGIApp:
        running = self._control.pipeline.running()
        return JsonResponse({"requests": [_request_body(each) for each in running]})

    async def _keys(self) -> ASGIApp:
        used = self._control.pipeline.key_usage
        names = [spec.name for spec in self._control.reconciler.loaded.manifest.auth_keys]
        rows = {name: used.get(name, KeyUsage()) for name in (*names, *used)}
        return JsonResponse({"keys": [{"name": name, **asdict(rows[name])} for name in rows]})

    async def _cancel(self, request: AnyRequest, request_id: str) -> ASGIApp:
        generation = self._control.pipeline.cancel(request_id, key_name="", is_admin=True)
        await note(self._control.records, request, "cancel", subject=generation.id)
        return JsonResponse({"id": generation.id, "state": generation.stage.value})

    async def _logs(self, lines: int = 200, follow: bool = False) -> ASGIApp:
        tail = self._control.tail
        if follow:
            return EventStream(_followed(tail, lines), self._is_ending)
        return JsonResponse({"lines": tail.newest(lines)[0]})

    async def _events(self) -> ASGIApp:
        texts = _followed(self._control.tail, 0, _EVENTS)
        return EventStream(texts, self._is_ending)

    async def _set_level(self, request: AnyRequest) -> ASGIApp:
        level = (await self._level_body.read(request)).level
        self._control.set_log_level(level)
        await note(self._control.records, request, "log-level", subject=level)
        return JsonResponse({"level": level})

    async def _drain(self, request: AnyRequest) -> ASGIApp:
        await note(self._control.records, request, "drain")
        self._control.stop()
        return JsonResponse({"status": "draining"})

    def _is_ending(self) -> bool:
        return self._control.gate.is_draining


async def _followed(
    tail: LogTail, count: int, wanted: frozenset[str] | None = None
) -> AsyncIterator[bytes]:
    """Yield the last `count` lines and what comes; `wanted` names events, None = all."""
    lines, cursor = tail.newest(count)
    while True:
        for line in lines:
            if wanted is None or line.get("event") in wanted:
                yield msgspec.json.encode(line)
        await tail.wait(cursor)
        lines, cursor = tail.since(cursor)


def _request_body(generation: Generation) -> dict[str, object]:
    return {
        "id": generation.id,
        "model": generation.model_name or generation.request.model,
        "key": generation.ids.sender.key_name,
        "state": generation.stage.value,
        "age_seconds": round(time.monotonic() - generation.times.arrived, 3),
        "prompt_tokens": generation.usage.prompt_tokens,
        "completion_tokens": generation.usage.completion_tokens,
    }
