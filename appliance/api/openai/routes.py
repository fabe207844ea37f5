"""Answer OpenAI's paths: models, chat completions, cancelling a request."""

from functools import partial
from typing import Any, cast

from litestar import Request, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.auth import Caller
from appliance.api.body import BodyReader, JsonResponse
from appliance.api.openai.codec import ChatChunkCodec, chat_completion, to_chat_request
from appliance.api.openai.wire import ChatBody
from appliance.api.sse import SseResponse, StreamTimes
from appliance.errors import EndpointDisabled, InvalidRequest, ModelNotFound
from appliance.manifest.spec import ServerSpec
from appliance.pipeline.generation import Generation
from appliance.pipeline.pipeline import Pipeline
from appliance.pipeline.sender import RequestIds
from appliance.registry.registry import Registry, Served
from appliance.telemetry.metrics import Metrics

AnyRequest = Request[Any, Any, Any]

CHAT_PATH = "/v1/chat/completions"

GRACE_SECONDS = 1.0
"""How long a refusal may still have its own status line on a stream."""


class OpenAiRoutes:
    """The handlers of OpenAI's paths, over what they need. Event loop only."""

    def __init__(
        self, registry: Registry, pipeline: Pipeline, server: ServerSpec, metrics: Metrics
    ) -> None:
        self._registry = registry
        self._pipeline = pipeline
        self._server = server
        self._times = StreamTimes(server.heartbeat, server.limits.write_timeout)
        self._chat_body = BodyReader(ChatBody, "chat", server.limits, metrics)

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        role = {"role": "inference"}
        handlers = [
            get("/v1/models", opt=role)(self._list_models),
            get("/v1/models/{name:path}", opt=role)(self._get_model),
            delete("/v1/requests/{request_id:str}", opt=role, status_code=200)(self._cancel),
        ]
        if self._server.endpoints.chat.enabled:
            handlers.append(post(CHAT_PATH, opt=role, status_code=200)(self._chat))
        return handlers

    async def _list_models(self, request: AnyRequest) -> ASGIApp:
        caller = cast(Caller, request.auth)
        entries = [
            model_entry(served, name)
            for name in self._registry.names()
            if caller.can_use(name, (served := self._registry.find(name)).name)
        ]
        return JsonResponse({"object": "list", "data": entries})

    async def _get_model(self, request: AnyRequest, name: str) -> ASGIApp:
        wanted = name.removeprefix("/")
        return JsonResponse(model_entry(self._find(request, wanted), wanted))

    def _find(self, request: AnyRequest, name: str) -> Served:
        """Return a model its caller may use; whether others exist is not told, not even nearly."""
        caller = cast(Caller, request.auth)
        try:
            served = self._registry.find(name)
        except ModelNotFound as error:
            raise (error if caller.models is None else ModelNotFound(name)) from None
        if not caller.can_use(name, served.name):
            raise ModelNotFound(name)
        return served

    def _check_door(self, served: Served, name: str) -> None:
        allowed = self._server.endpoints.chat.models
        if allowed != "*" and name not in allowed and served.name not in allowed:
            raise EndpointDisabled("chat", name)

    async def _chat(self, request: AnyRequest) -> ASGIApp:
        body = await self._chat_body.read(request)
        if body.stream_options is not None and not body.stream:
            raise InvalidRequest("stream_options needs stream to be true.", param="stream_options")
        self._check_door(self._find(request, body.model), body.model)
        generation = self._open(request, body)
        generation.start()
        if not body.stream:
            await generation.opened()
            events = await self._pipeline.whole(generation)
            answer = chat_completion(
                generation.id, body.model, events, has_logprobs=bool(body.logprobs)
            )
            return JsonResponse(answer)
        await generation.opened(GRACE_SECONDS)
        options = body.stream_options
        codec = ChatChunkCodec(
            generation.id,
            body.model,
            include_usage=bool(options and options.include_usage),
        )
        return SseResponse(generation, codec, self._pipeline, self._times)

    def _open(self, request: AnyRequest, body: ChatBody) -> Generation:
        state = request.scope["state"]
        ids = RequestIds(
            own=state["request_id"],
            client=state["client_request_id"],
            sender=cast(Caller, request.auth).sender,
        )
        generation = self._pipeline.open(to_chat_request(body), ids)
        state["on_close"] = partial(self._pipeline.close, generation)
        return generation

    async def _cancel(self, request: AnyRequest, request_id: str) -> ASGIApp:
        caller = cast(Caller, request.auth)
        wanted = request_id.removeprefix("chatcmpl-")
        generation = self._pipeline.cancel(
            wanted, key_name=caller.sender.key_name, is_admin="admin" in caller.roles
        )
        return JsonResponse(
            {"id": generation.id, "object": "request.cancelled", "stage": generation.stage.value}
        )


def model_entry(served: Served, name: str) -> dict[str, Any]:
    """Return a model in OpenAI's list, under one of its names; `root` is whose copy it uses."""
    loaded = served.resident.loaded
    context = loaded.context_tokens if loaded else served.spec.engine.max_context_tokens
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "vllm-mlx",
        "root": served.resident.spec.name,
        "kind": "text",
        "state": served.resident.phase.value,
        "context_length": context,
        "max_model_len": context,
        "capabilities": ["chat"],
    }
