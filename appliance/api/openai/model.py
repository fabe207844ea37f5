"""Answer /v1/models: the names that requests may use, in OpenAI's and in Anthropic's shape."""

import asyncio
from dataclasses import dataclass
from typing import cast

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.auth import Caller
from appliance.api.body import JsonResponse
from appliance.api.inference import AnyRequest, Inference
from appliance.chat.traits import Traits
from appliance.errors import InvalidRequest
from appliance.parsing.detect import choose_format
from appliance.registry.card import ModelCard
from appliance.registry.registry import Served

_MOST_LISTED = 1000


class ModelEntry(msgspec.Struct, kw_only=True):
    """One name in OpenAI's list. `root` is the model whose copy it uses, `aliases` its other names.

    `created` and `parent` mean nothing here. `context_length` and `max_model_len` are the most
    tokens of prompt and answer together; null until the model's files are here.
    """

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "vllm-mlx"
    root: str
    parent: str | None = None
    aliases: list[str]
    kind: str
    state: str
    context_length: int | None
    max_model_len: int | None
    capabilities: list[str]


class ModelPage(msgspec.Struct, kw_only=True):
    """OpenAI's list, with every name that the caller may use."""

    object: str = "list"
    data: list[ModelEntry]


class AnthropicModel(msgspec.Struct, kw_only=True):
    """One name in Anthropic's list; the epoch stands for a date that is not known."""

    id: str
    type: str = "model"
    display_name: str
    created_at: str = "1970-01-01T00:00:00Z"
    lifecycle: str = "active"
    max_input_tokens: int | None
    max_tokens: int


class AnthropicModelPage(msgspec.Struct):
    """A part of Anthropic's list."""

    data: list[AnthropicModel]
    has_more: bool
    first_id: str | None
    last_id: str | None


@dataclass(frozen=True)
class _Named:
    """A name, what it leads to, the model's card and its other names."""

    name: str
    served: Served
    card: ModelCard
    aliases: tuple[str, ...]


class ModelRoutes:
    """The handlers of the models' paths. Event loop only.

    Requests with an `anthropic-version` header are answered in Anthropic's shape.
    """

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        role = {"role": "inference"}
        return [
            get("/v1/models", opt=role)(self._list),
            get("/v1/models/{name:path}", opt=role)(self._get),
        ]

    async def _list(
        self,
        request: AnyRequest,
        limit: int = _MOST_LISTED,
        after_id: str | None = None,
        before_id: str | None = None,
    ) -> ASGIApp:
        names = self._names(request)
        if not _is_anthropic(request):
            found = await self._read(request, names)
            return JsonResponse(ModelPage(data=[openai_model(each) for each in found]))
        if not 1 <= limit <= _MOST_LISTED:
            raise InvalidRequest(f"limit should be from 1 to {_MOST_LISTED}.", param="limit")
        shown, has_more = page_of(names, limit, after_id, before_id)
        data = [self._anthropic_model(each) for each in await self._read(request, shown)]
        first, last = (data[0].id, data[-1].id) if data else (None, None)
        return JsonResponse(AnthropicModelPage(data, has_more, first, last))

    async def _get(self, request: AnyRequest, name: str) -> ASGIApp:
        wanted = name.removeprefix("/")
        self._inference.find(request, wanted)
        (found,) = await self._read(request, [wanted])
        if _is_anthropic(request):
            return JsonResponse(self._anthropic_model(found))
        return JsonResponse(openai_model(found))

    def _names(self, request: AnyRequest) -> list[str]:
        caller, registry = cast(Caller, request.auth), self._inference.registry
        return [name for name in registry.names() if caller.can_use(name, registry.find(name).name)]

    async def _read(self, request: AnyRequest, names: list[str]) -> list[_Named]:
        registry = self._inference.registry
        served = [registry.find(name) for name in names]
        owners = {name: registry.find(name).name for name in self._names(request)}
        read = registry.cards.read
        cards = await asyncio.to_thread(lambda: [read(each.spec) for each in served])
        return [
            _Named(name, each, card, _aliases(owners, each.name, name))
            for name, each, card in zip(names, served, cards, strict=True)
        ]

    def _anthropic_model(self, named: _Named) -> AnthropicModel:
        most = self._inference.server.limits.max_output_tokens
        context = context_tokens(named.served, named.card)
        return AnthropicModel(
            id=named.name,
            display_name=named.name,
            max_input_tokens=context,
            max_tokens=most if context is None else min(most, context),
        )


def context_tokens(served: Served, card: ModelCard) -> int | None:
    """Return the most tokens of prompt and answer; None until the model's files tell."""
    loaded = served.resident.loaded
    return loaded.context_tokens if loaded else card.context_tokens


def openai_model(named: _Named) -> ModelEntry:
    """Return a model in OpenAI's list, under one of its names."""
    served, context = named.served, context_tokens(named.served, named.card)
    return ModelEntry(
        id=named.name,
        root=served.resident.spec.name,
        aliases=list(named.aliases),
        kind="text" if served.spec.kind == "auto" else served.spec.kind,
        state=served.resident.phase.value,
        context_length=context,
        max_model_len=context,
        capabilities=_capabilities(served, named.card),
    )


def page_of(
    names: list[str], limit: int, after: str | None, before: str | None
) -> tuple[list[str], bool]:
    """Return the `limit` names next to a cursor, and whether there are more that way. Pure.

    A cursor that is no name is as good as none.
    """
    if before in names:
        rest = names[: names.index(before)]
        return rest[-limit:], len(rest) > limit
    rest = names[names.index(after) + 1 :] if after in names else names
    return rest[:limit], len(rest) > limit


def _aliases(owners: dict[str, str], owner: str, name: str) -> tuple[str, ...]:
    return tuple(other for other, its in owners.items() if its == owner and other != name)


def _capabilities(served: Served, card: ModelCard) -> list[str]:
    # Before its files are here nothing is known against a model.
    has_template = card.template != "" or served.spec.is_scripted()
    answers = choose_format(served.spec.chat, Traits(template=card.template or ""))
    found = {
        "chat": has_template,
        "completions": True,
        "tools": answers.tools != "none",
        "thinking": answers.reasoning != "none",
        "fill_in_the_middle": card.fills_in,
    }
    return [name for name, is_there in found.items() if is_there]


def _is_anthropic(request: AnyRequest) -> bool:
    return "anthropic-version" in request.headers
