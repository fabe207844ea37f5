"""Carry a decoded request to its answer, alike for every dialect."""

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec
from litestar import Request
from litestar.types import ASGIApp

from appliance.api.auth import Caller
from appliance.api.body import BodyReader
from appliance.api.sse import EventCodec, SseResponse, StreamTimes
from appliance.chat.request import ChatRequest
from appliance.errors import EndpointDisabled, ModelNotFound
from appliance.manifest.spec import ServerSpec
from appliance.pipeline.choices import Choices
from appliance.pipeline.pipeline import Pipeline
from appliance.pipeline.sender import RequestIds, Sender
from appliance.registry.registry import Registry, Served
from appliance.telemetry.metrics import Metrics

AnyRequest = Request[Any, Any, Any]
T = TypeVar("T", bound=msgspec.Struct)

GRACE_SECONDS = 1.0
"""How long a refusal may still have its own status line on a stream."""

CHAT_APIS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
}
"""The paths that generate, and what metrics and logs call their dialects."""


@dataclass(frozen=True, slots=True)
class Inference:
    """What the handlers of every dialect need. Event loop only."""

    registry: Registry
    pipeline: Pipeline
    server: ServerSpec
    metrics: Metrics

    def reader(self, kind: type[T], api: str) -> BodyReader[T]:
        """Return what reads one kind of body, within the manifest's limits."""
        return BodyReader(kind, api, self.server.limits, self.metrics)

    def find(self, request: AnyRequest, name: str) -> Served:
        """Return a model its caller may use; whether others exist is not told, not even nearly."""
        caller = cast(Caller, request.auth)
        try:
            served = self.registry.find(name)
        except ModelNotFound as error:
            raise (error if caller.models is None else ModelNotFound(name)) from None
        if not caller.can_use(name, served.name):
            raise ModelNotFound(name)
        return served

    def check_door(self, request: AnyRequest, name: str) -> Served:
        """Return a model that its caller may use at the chat endpoints.

        Raises ModelNotFound, or EndpointDisabled where the manifest keeps the model from them.
        """
        served = self.find(request, name)
        allowed = self.server.endpoints.chat.models
        if allowed != "*" and name not in allowed and served.name not in allowed:
            raise EndpointDisabled("chat", name)
        return served

    def open(
        self, request: AnyRequest, wanted: tuple[ChatRequest, ...], api: str, n: int = 1
    ) -> Choices:
        """Begin the answer to an HTTP request; the edge closes it on every way out.

        All of `wanted` are for one model; each is answered `n` times. Raises what is refused at
        once: ModelNotFound, EndpointDisabled, QueueFull, InvalidRequest.
        """
        self.check_door(request, wanted[0].model)
        state, sender = request.scope["state"], _sender(request)
        ids = RequestIds(state["request_id"], state["client_request_id"], sender, api)
        choices = Choices(self.pipeline, tuple(map(sender.completed, wanted)), ids, n)
        state["on_close"] = choices.close
        choices.start()
        return choices

    def completed(self, request: AnyRequest, wanted: ChatRequest) -> ChatRequest:
        """Return what is wanted with what the caller's key always wants; `open` does so itself."""
        return _sender(request).completed(wanted)

    async def stream(self, choices: Choices, codec: EventCodec) -> ASGIApp:
        """Return the response that streams an answer; raises what is refused within the grace."""
        await choices.opened(GRACE_SECONDS)
        times = StreamTimes(self.server.heartbeat, self.server.limits.write_timeout)
        return SseResponse(choices, codec, times)


def _sender(request: AnyRequest) -> Sender:
    return cast(Caller, request.auth).sender
