"""Answer the probes and Prometheus."""

import time
from dataclasses import replace
from typing import Any, cast

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance import __version__
from appliance.api.auth import Caller
from appliance.api.body import JsonResponse
from appliance.api.gate import Gate
from appliance.manifest.spec import MetricsDoorSpec
from appliance.registry.phase import ModelStatus, Phase
from appliance.registry.registry import Registry
from appliance.telemetry.metrics import Metrics

AnyRequest = Request[Any, Any, Any]


class StatusRoutes:
    """The handlers of /health* and /metrics. Event loop only."""

    def __init__(
        self,
        registry: Registry,
        metrics: Metrics,
        gate: Gate,
        door: MetricsDoorSpec,
        started: float,
    ) -> None:
        """`started`: when the appliance began, by the monotonic clock."""
        self._registry = registry
        self._metrics = metrics
        self._gate = gate
        self._door = door
        self._started = started

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        handlers = [
            get("/health/live")(self._live),
            get("/health/ready")(self._ready),
            get("/health")(self._health),
        ]
        if self._door.enabled:
            opt = {"role": "metrics"} if self._door.auth else {}
            handlers.append(get("/metrics", opt=opt)(self._scrape))
        return handlers

    async def _live(self) -> ASGIApp:
        return JsonResponse({"status": "live"})

    async def _ready(self, request: AnyRequest) -> ASGIApp:
        state = self._state()
        content: dict[str, Any] = {"status": state}
        if (caller := cast(Caller | None, request.auth)) is not None:
            content["waiting_for"] = [
                {"name": status.name, "phase": status.phase, "reason": status.reason}
                for status in self._visible(caller)
                if status.is_required and status.phase is not Phase.READY
            ]
        return JsonResponse(content, status=200 if state == "ready" else 503)

    async def _health(self, request: AnyRequest) -> ASGIApp:
        content: dict[str, Any] = {"status": self._state()}
        if (caller := cast(Caller | None, request.auth)) is not None:
            content |= {
                "version": __version__,
                "uptime_seconds": round(time.monotonic() - self._started, 3),
                "models": [msgspec.to_builtins(status) for status in self._visible(caller)],
            }
        return JsonResponse(content)

    async def _scrape(self) -> Response[bytes]:
        self._registry.refresh_gauges(self._metrics)
        return Response(
            self._metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    def _visible(self, caller: Caller) -> list[ModelStatus]:
        statuses = (each for each in self._registry.statuses() if caller.can_use(each.name))
        return [
            replace(each, profiles=tuple(filter(caller.can_use, each.profiles)))
            for each in statuses
        ]

    def _state(self) -> str:
        if self._gate.is_draining:
            return "draining"
        return "ready" if self._registry.is_converged() else "not_ready"
