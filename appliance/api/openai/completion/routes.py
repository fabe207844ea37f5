"""Answer POST /v1/completions."""

from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.body import JsonResponse
from appliance.api.inference import AnyRequest, Inference
from appliance.api.openai.choice import AnswerHead, usage_wanted
from appliance.api.openai.completion.codec import Prompt, completion, to_chat_requests
from appliance.api.openai.completion.stream import CompletionStreamCodec
from appliance.api.openai.completion.wire import CompletionBody
from appliance.pipeline.choices import Choices


class CompletionRoutes:
    """The handler of Completions, over what it needs. Event loop only."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._body = inference.reader(CompletionBody, "completions")

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        role = {"role": "inference"}
        return [post("/v1/completions", opt=role, status_code=200)(self._answer)]

    async def _answer(self, request: AnyRequest) -> ASGIApp:
        body = await self._body.read(request)
        n, include_usage = body.n or 1, usage_wanted(body)
        wanted = to_chat_requests(body)
        choices = self._inference.open(request, wanted, "completions", n)
        head = AnswerHead(f"cmpl-{choices.id}", body.model)
        echoes = [""] * (len(wanted) * n)
        if body.echo:
            texts = [await self._text(choices, each.model, each.prompt or "") for each in wanted]
            echoes = [text for text in texts for _ in range(n)]
        if body.stream:
            codec = CompletionStreamCodec(head, echoes=echoes, include_usage=include_usage)
            return await self._inference.stream(choices, codec)
        await choices.opened()
        events = await choices.whole()
        has_logprobs = body.logprobs is not None
        return JsonResponse(
            completion(head, events, choices.usage, echoes=echoes, has_logprobs=has_logprobs)
        )

    async def _text(self, choices: Choices, model: str, prompt: Prompt) -> str:
        """Return a prompt's text; token ids have one as soon as the model's files are here."""
        if isinstance(prompt, str):
            return prompt
        await choices.opened()
        if self._inference.registry.find(model).spec.is_scripted():
            return " ".join(map(str, prompt))
        return await self._inference.pipeline.lexicon.decode(model, list(prompt))
