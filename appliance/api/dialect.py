"""Gather the routes that answer inference requests, in every dialect."""

from litestar.handlers import HTTPRouteHandler

from appliance.api.anthropic.routes import MessagesRoutes
from appliance.api.inference import Inference
from appliance.api.openai.chat.routes import ChatRoutes
from appliance.api.openai.completion.routes import CompletionRoutes
from appliance.api.openai.embedding import EmbeddingRoutes
from appliance.api.openai.model import ModelRoutes
from appliance.api.openai.request import RequestRoutes
from appliance.api.openai.responses.background import Background
from appliance.api.openai.responses.routes import ResponseRoutes
from appliance.api.openai.token import TokenRoutes


def inference_handlers(inference: Inference, background: Background) -> list[HTTPRouteHandler]:
    """Return the handlers of inference; those of chat only if the manifest opens its door."""
    handlers = [
        *EmbeddingRoutes(inference).handlers(),
        *ModelRoutes(inference).handlers(),
        *RequestRoutes(inference).handlers(),
    ]
    if inference.server.endpoints.chat.enabled:
        handlers += [
            *ChatRoutes(inference).handlers(),
            *CompletionRoutes(inference).handlers(),
            *ResponseRoutes(inference, background).handlers(),
            *MessagesRoutes(inference).handlers(),
            *TokenRoutes(inference).handlers(),
        ]
    return handlers
