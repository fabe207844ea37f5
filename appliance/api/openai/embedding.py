"""Answer POST /v1/embeddings in its own words: no model here embeds yet."""

from typing import Annotated, Any, Literal

import msgspec
from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from msgspec import Meta

from appliance.api.inference import AnyRequest, Inference
from appliance.errors import EndpointDisabled


class EmbeddingBody(msgspec.Struct):
    """The body of POST /v1/embeddings. Source: OpenAI's API reference, "Create embeddings"."""

    model: str
    input: str | Annotated[list[Any], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    user: str | None = None


class EmbeddingRoutes:
    """The handler of embeddings. Event loop only."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._body = inference.reader(EmbeddingBody, "embeddings")

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        return [post("/v1/embeddings", opt={"role": "inference"}, status_code=200)(self._embed)]

    async def _embed(self, request: AnyRequest) -> ASGIApp:
        body = await self._body.read(request)
        self._inference.find(request, body.model)
        raise EndpointDisabled("embeddings", body.model)
