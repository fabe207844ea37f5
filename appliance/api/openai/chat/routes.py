"""Answer POST /v1/chat/completions."""

from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.body import JsonResponse
from appliance.api.inference import AnyRequest, Inference
from appliance.api.openai.chat.codec import chat_completion, to_chat_request
from appliance.api.openai.chat.stream import ChatStreamCodec
from appliance.api.openai.chat.wire import ChatBody
from appliance.api.openai.choice import AnswerHead, usage_wanted


class ChatRoutes:
    """The handler of Chat Completions, over what it needs. Event loop only."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._body = inference.reader(ChatBody, "chat")

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        role = {"role": "inference"}
        return [post("/v1/chat/completions", opt=role, status_code=200)(self._answer)]

    async def _answer(self, request: AnyRequest) -> ASGIApp:
        body = await self._body.read(request)
        n, include_usage = body.n or 1, usage_wanted(body)
        choices = self._inference.open(request, (to_chat_request(body),), "chat", n)
        head = AnswerHead(f"chatcmpl-{choices.id}", body.model)
        if body.stream:
            codec = ChatStreamCodec(head, num_choices=n, include_usage=include_usage)
            return await self._inference.stream(choices, codec)
        await choices.opened()
        events = await choices.whole()
        has_logprobs = bool(body.logprobs)
        return JsonResponse(chat_completion(head, events, choices.usage, has_logprobs=has_logprobs))
