"""Answer Anthropic's paths: messages, and the counting of their tokens."""

from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.anthropic.codec import message_body, to_chat_request, to_prompt
from appliance.api.anthropic.stream import MessagesCodec
from appliance.api.anthropic.wire import CountBody, MessagesBody
from appliance.api.body import JsonResponse
from appliance.api.inference import AnyRequest, Inference


class MessagesRoutes:
    """The handlers of Anthropic's paths, over what they need. Event loop only."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._body = inference.reader(MessagesBody, "messages")
        self._count_body = inference.reader(CountBody, "messages")

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        role = {"role": "inference"}
        return [
            post("/v1/messages", opt=role, status_code=200)(self._create),
            post("/v1/messages/count_tokens", opt=role, status_code=200)(self._count),
        ]

    async def _create(self, request: AnyRequest) -> ASGIApp:
        body = await self._body.read(request)
        shows_thoughts = body.thinking is None or body.thinking.display != "omitted"
        wanted = to_chat_request(body, self._inference.server.limits.max_output_tokens)
        choices = self._inference.open(request, (wanted,), "messages")
        if body.stream:
            codec = MessagesCodec(choices.id, body.model, shows_thoughts=shows_thoughts)
            return await self._inference.stream(choices, codec)
        await choices.opened()
        events = (await choices.whole())[0]
        answer = message_body(choices.id, body.model, events, shows_thoughts=shows_thoughts)
        return JsonResponse(answer)

    async def _count(self, request: AnyRequest) -> ASGIApp:
        body = await self._count_body.read(request)
        self._inference.check_door(request, body.model)
        wanted = self._inference.completed(request, to_prompt(body))
        count = await self._inference.pipeline.lexicon.count(wanted)
        return JsonResponse({"input_tokens": count})
