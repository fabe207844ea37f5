"""Answer OpenAI's paths: models, chat completions, cancelling a request."""

from typing import Any, cast

from litestar import Request, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.auth import Caller
from appliance.api.body import BodyReader, JsonResponse
from appliance.api.openai.codec import ChatChunkCodec, chat_completion, to_chat_request
from appliance.api.openai.wire import ChatBody
from appliance.api.sse import SseResponse
from appliance.chat.event import GenerationEvent
from appliance.errors import InvalidRequest
from appliance.manifest.spec import ServerSpec
from appliance.pipeline.generation import Generation
from appliance.pipeline.pipeline import Pipeline
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
        self._chat_body = BodyReader(ChatBody, "chat", server.limits, metrics)

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        return [
            get("/v1/models", opt={"role": "inference"})(self._list_models),
            get("/v1/models/{name:path}", opt={"role": "inference"})(self._get_model),
            post(CHAT_PATH, opt={"role": "inference"}, status_code=200)(self._chat),
            delete("/v1/requests/{request_id:str}", opt={"role": "inference"}, status_code=200)(
                self._cancel
            ),
        ]

    async def _list_models(self, request: AnyRequest) -> ASGIApp:
        caller = cast(Caller, request.auth)
        entries = [
            model_entry(resident, name)
            for resident in map(self._registry.find, self._registry.names())
            for name in (resident.spec.name, *resident.spec.aliases)
            if caller.can_use(name)
        ]
        return JsonResponse({"object": "list", "data": entries})

    async def _get_model(self, request: AnyRequest, name: str) -> ASGIApp:
        wanted = name.removeprefix("/")
        cast(Caller, request.auth).check_model(wanted)
        return JsonResponse(model_entry(self._registry.find(wanted), wanted))

    async def _chat(self, request: AnyRequest) -> ASGIApp:
        body = await self._chat_body.read(request)
        if body.stream_options is not None and not body.stream:
            raise InvalidRequest("stream_options needs stream to be true.", param="stream_options")
        caller = cast(Caller, request.auth)
        caller.check_model(body.model)
        generation = self._open(request, body, caller)
        if not body.stream:
            await generation.opened()
            events = await _fold(generation)
            self._pipeline.note_text(generation)
            self._close(request, generation)
            return JsonResponse(chat_completion(generation.id, body.model, events))
        await generation.opened(GRACE_SECONDS)
        options = body.stream_options
        codec = ChatChunkCodec(
            generation.id,
            body.model,
            include_usage=bool(options and options.include_usage),
        )
        return SseResponse(generation, codec, self._pipeline, self._server.heartbeat)

    def _open(self, request: AnyRequest, body: ChatBody, caller: Caller) -> Generation:
        state = request.scope["state"]
        generation = self._pipeline.open(
            to_chat_request(body),
            request_id=state["request_id"],
            key_name=caller.key_name,
            client_id=state["client_request_id"],
        )
        state["on_close"] = lambda: self._close(request, generation)
        return generation

    def _close(self, request: AnyRequest, generation: Generation) -> None:
        state = request.scope["state"]
        self._pipeline.close(generation, state["client_request_id"])

    async def _cancel(self, request: AnyRequest, request_id: str) -> ASGIApp:
        caller = cast(Caller, request.auth)
        wanted = request_id.removeprefix("chatcmpl-")
        generation = self._pipeline.cancel(
            wanted, key_name=caller.key_name, is_admin="admin" in caller.roles
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


async def _fold(generation: Generation) -> list[GenerationEvent]:
    events: list[GenerationEvent] = []
    while generation.finish_reason is None:
        events += await generation.next_events()
    return events
