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
from appliance.errors import InvalidRequest, ModelNotFound
from appliance.manifest.spec import ServerSpec
from appliance.pipeline.generation import Generation
from appliance.pipeline.pipeline import Pipeline
from appliance.pipeline.sender import RequestIds
from appliance.registry.registry import Registry
from appliance.registry.resident import Resident
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
            model_entry(resident, name)
            for resident in map(self._registry.find, self._registry.names())
            for name in (resident.spec.name, *resident.spec.aliases)
            if caller.can_use(name, resident.spec.name)
        ]
        return JsonResponse({"object": "list", "data": entries})

    async def _get_model(self, request: AnyRequest, name: str) -> ASGIApp:
        wanted = name.removeprefix("/")
        return JsonResponse(model_entry(self._find(request, wanted), wanted))

    def _find(self, request: AnyRequest, name: str) -> Resident:
        """Return a model its caller may use; whether others exist is not told, not even nearly."""
        caller = cast(Caller, request.auth)
        try:
            resident = self._registry.find(name)
        except ModelNotFound as error:
            raise (error if caller.models is None else ModelNotFound(name)) from None
        if not caller.can_use(name, resident.spec.name):
            raise ModelNotFound(name)
        return resident

    async def _chat(self, request: AnyRequest) -> ASGIApp:
        body = await self._chat_body.read(request)
        if body.stream_options is not None and not body.stream:
            raise InvalidRequest("stream_options needs stream to be true.", param="stream_options")
        self._find(request, body.model)
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


def model_entry(resident: Resident, name: str) -> dict[str, Any]:
    """Return a model in OpenAI's list, under one of its names."""
    status = resident.status()
    context = status.context_tokens or resident.spec.engine.max_context_tokens
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "vllm-mlx",
        "root": resident.spec.name,
        "kind": "text",
        "state": status.phase.value,
        "context_length": context,
        "max_model_len": context,
        "capabilities": ["chat"],
    }
