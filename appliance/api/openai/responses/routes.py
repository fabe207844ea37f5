"""Answer the paths of Responses: make an answer, and find, end or forget one that is kept."""

from typing import cast

import msgspec
import structlog
from litestar import delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.auth import Caller
from appliance.api.body import JsonResponse
from appliance.api.inference import AnyRequest, Inference
from appliance.api.openai.responses.background import Background, BackgroundAnswer
from appliance.api.openai.responses.codec import (
    check_body,
    seals_thoughts,
    shows_summary,
    to_chat_request,
)
from appliance.api.openai.responses.envelope import AnswerStatus, Envelope, error_body
from appliance.api.openai.responses.history import HistoryReader, answer_of
from appliance.api.openai.responses.listing import listed_items, page, response_id
from appliance.api.openai.responses.output import Output, ThoughtStyle
from appliance.api.openai.responses.rows import StoredResponse
from appliance.api.openai.responses.stream import OnStatus, ResponseStreamCodec, fold_answer
from appliance.api.openai.responses.tool import read_tools
from appliance.api.openai.responses.wire import Item, ResponsesBody
from appliance.errors import EngineStopped, InvalidRequest
from appliance.pipeline.choices import Choices

_PATH = "/v1/responses"
_ONE = "/v1/responses/{response_id:str}"

log = structlog.get_logger()

_json = msgspec.json.Encoder()


class ResponseRoutes:
    """The handlers of Responses, over what they need. Event loop only."""

    def __init__(self, inference: Inference, background: Background) -> None:
        self._inference = inference
        self._background = background
        self._store = background.store
        self._body = inference.reader(ResponsesBody, "responses")

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        role = {"role": "inference"}
        return [
            post(_PATH, opt=role, status_code=200)(self._answer),
            get(_ONE, opt=role)(self._get),
            delete(_ONE, opt=role, status_code=200)(self._delete),
            post(_ONE + "/cancel", opt=role, status_code=200)(self._cancel),
            get(_ONE + "/input_items", opt=role)(self._list_input),
        ]

    async def _answer(self, request: AnyRequest) -> ASGIApp:
        body = await self._body.read(request)
        self._check(body)
        keeps = body.store is not False and self._store.keeps
        body = msgspec.structs.replace(body, store=keeps)
        history = await self._history(request).read(body)
        offer = read_tools(body)
        if num_ignored := len(body.tools or ()) - len(offer.shown):
            self._inference.metrics.unknown_fields_total.labels("responses").inc(num_ignored)
            log.debug("tools_ignored", api="responses", num_tools=num_ignored)
        choices = self._inference.open(
            request, (to_chat_request(body, history, offer),), "responses"
        )
        envelope = Envelope(body, offer, choices.id)
        style = ThoughtStyle(is_summary=shows_summary(body), is_sealed=seals_thoughts(body))
        output = Output(choices.id, style, offer.origins)
        keep = self._keeper(request, body, history.given, choices.id)
        if body.background:
            # The answer outlives its request: closing it is the background's.
            del request.scope["state"]["on_close"]
            return self._put_off(BackgroundAnswer(choices, envelope, output, keep))
        if body.stream:
            codec = ResponseStreamCodec(envelope, output, keep)
            return await self._inference.stream(choices, codec)
        return await _whole(choices, envelope, output, keep)

    async def _get(self, request: AnyRequest, response_id: str) -> ASGIApp:
        if request.query_params.get("stream", "false").lower() not in ("false", "0", ""):
            reason = "stream: an answer that is kept comes in one piece."
            raise InvalidRequest(reason, param="stream")
        return JsonResponse(await self._found(request, response_id))

    async def _delete(self, request: AnyRequest, response_id: str) -> ASGIApp:
        await self._store.delete(_key(request), response_id)
        await self._background.cancel(response_id)
        return JsonResponse({"id": response_id, "object": "response", "deleted": True})

    async def _cancel(self, request: AnyRequest, response_id: str) -> ASGIApp:
        stored = await self._store.get(_key(request), response_id)
        if not answer_of(stored)["background"]:
            reason = "Only answers made with background can be cancelled."
            raise InvalidRequest(reason, param="response_id")
        await self._background.cancel(response_id)
        return JsonResponse(await self._found(request, response_id))

    async def _list_input(self, request: AnyRequest, response_id: str) -> ASGIApp:
        items = await self._history(request).listed(response_id)
        return JsonResponse(page(items, dict(request.query_params)))

    def _check(self, body: ResponsesBody) -> None:
        check_body(body)
        if body.background and not self._store.keeps:
            reason = "background needs stored responses, and this server keeps none."
            raise InvalidRequest(reason, param="background")

    def _history(self, request: AnyRequest) -> HistoryReader:
        return HistoryReader(self._store, _key(request), self._inference.server.limits.max_body)

    def _keeper(
        self, request: AnyRequest, body: ResponsesBody, given: list[Item], request_id: str
    ) -> OnStatus:
        """Return what keeps the answer each time that it stands otherwise, if it is to be kept."""
        if not body.store:
            return lambda status, answer: None
        store, key, previous = self._store, _key(request), body.previous_response_id
        items = _json.encode(listed_items(given, request_id))

        def keep(status: AnswerStatus, answer: bytes) -> None:
            put = store.renew if body.background and status != "queued" else store.put
            put(StoredResponse(response_id(request_id), key, previous, status, answer, items))

        return keep

    def _put_off(self, answer: BackgroundAnswer) -> ASGIApp:
        queued = _json.encode(answer.envelope.response("queued", []))
        answer.on_status("queued", queued)
        self._background.start(answer)
        return JsonResponse(msgspec.Raw(queued))

    async def _found(self, request: AnyRequest, response_id: str) -> Item:
        """Return an answer as it stands; one that was to come when the server ended has failed."""
        # Asked before the store is: an answer that ends meanwhile would look like one cut off.
        is_running = self._background.is_running(response_id)
        stored = await self._store.get(_key(request), response_id)
        answer = answer_of(stored)
        if stored.status in ("queued", "in_progress") and not is_running:
            error = EngineStopped("The server ended before the answer did.")
            return answer | {"status": "failed", "error": error_body(error)}
        return answer


async def _whole(choices: Choices, envelope: Envelope, output: Output, keep: OnStatus) -> ASGIApp:
    await choices.opened()
    events = (await choices.whole())[0]
    status, response = fold_answer(envelope, output, events, choices.usage)
    answer = _json.encode(response)
    keep(status, answer)
    return JsonResponse(msgspec.Raw(answer))


def _key(request: AnyRequest) -> str:
    return cast(Caller, request.auth).sender.key_name
