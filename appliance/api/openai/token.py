"""Answer /tokenize and /detokenize: a prompt's tokens, and the text of tokens; no model is woken.

Source: vLLM's "Tokenizer API" of its OpenAI-compatible server.
"""

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from msgspec import UNSET, Meta

from appliance.api.body import JsonResponse
from appliance.api.inference import AnyRequest, Inference
from appliance.api.openai.chat.message import to_message, unserved_history
from appliance.api.openai.chat.wire import ToolBody, WireMessage
from appliance.api.openai.model import context_tokens
from appliance.api.openai.refusal import Refusable, neutral, unserved_fields
from appliance.api.openai.sampling import TokenId
from appliance.api.tool import to_tool
from appliance.chat.request import ChatRequest
from appliance.errors import InvalidRequest


class TokenizeBody(msgspec.Struct, kw_only=True):
    """The body of POST /tokenize: a text, or a conversation as the model's template writes it.

    A text gets the tokenizer's special tokens around it unless `add_special_tokens` is false; a
    template writes its own.
    """

    model: str
    prompt: str | None = None
    messages: Annotated[list[WireMessage], Meta(min_length=1)] | None = None
    tools: list[ToolBody] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    add_generation_prompt: Annotated[Refusable, neutral(True)] = UNSET
    continue_final_message: Annotated[Refusable, neutral(False)] = UNSET
    chat_template: Annotated[Refusable, neutral()] = UNSET
    mm_processor_kwargs: Annotated[Refusable, neutral({})] = UNSET


class TokenizeAnswer(msgspec.Struct, kw_only=True):
    """The tokens, their texts if asked for, and the most that the model takes."""

    count: int
    max_model_len: int | None
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeBody(msgspec.Struct, kw_only=True):
    """The body of POST /detokenize."""

    model: str
    tokens: list[TokenId]


class DetokenizeAnswer(msgspec.Struct):
    """The text of the tokens, that of special ones too."""

    prompt: str


class TokenRoutes:
    """The handlers of the tokenizer's paths. Event loop only."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._tokenize_body = inference.reader(TokenizeBody, "tokenize")
        self._detokenize_body = inference.reader(DetokenizeBody, "tokenize")

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        role = {"role": "inference"}
        return [
            post("/tokenize", opt=role, status_code=200)(self._tokenize),
            post("/detokenize", opt=role, status_code=200)(self._detokenize),
        ]

    async def _tokenize(self, request: AnyRequest) -> ASGIApp:
        body = await self._tokenize_body.read(request)
        _check(body)
        served = self._inference.check_door(request, body.model)
        lexicon = self._inference.pipeline.lexicon
        if body.prompt is None:
            ids = await lexicon.render(self._inference.completed(request, _conversation(body)))
        else:
            adds_special = body.add_special_tokens is not False
            ids = await lexicon.encode(body.model, body.prompt, adds_special=adds_special)
        pieces = await lexicon.pieces(body.model, ids) if body.return_token_strs else None
        card = await asyncio.to_thread(self._inference.registry.cards.read, served.spec)
        answer = TokenizeAnswer(
            count=len(ids),
            max_model_len=context_tokens(served, card),
            tokens=ids,
            token_strs=pieces,
        )
        return JsonResponse(answer)

    async def _detokenize(self, request: AnyRequest) -> ASGIApp:
        body = await self._detokenize_body.read(request)
        self._inference.check_door(request, body.model)
        text = await self._inference.pipeline.lexicon.decode(body.model, body.tokens)
        return JsonResponse(DetokenizeAnswer(text))


def _check(body: TokenizeBody) -> None:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidRequest("There must be either a prompt or messages.", param="prompt")
    for name in (*unserved_fields(body), *unserved_history(body.messages or [])):
        raise InvalidRequest(f"{name} is not supported yet.", param=name)
    for name in ("tools", "chat_template_kwargs"):
        if body.prompt is not None and getattr(body, name):
            raise InvalidRequest(f"{name} needs messages.", param=name)
    if body.messages is not None and body.add_special_tokens:
        reason = "add_special_tokens is for a prompt: a template writes its own."
        raise InvalidRequest(reason, param="add_special_tokens")


def _conversation(body: TokenizeBody) -> ChatRequest:
    return ChatRequest(
        model=body.model,
        messages=tuple(to_message(index, each) for index, each in enumerate(body.messages or ())),
        tools=tuple(to_tool(tool.function) for tool in body.tools or ()),
        template_kwargs=body.chat_template_kwargs or {},
    )
