"""Turn requests and texts into tokens, and tokens into text, without a model in memory."""

from appliance.chat.client import TextProcess
from appliance.chat.request import ChatRequest
from appliance.engine.wire import ScriptPrompt
from appliance.errors import InvalidRequest
from appliance.pipeline.bound import bounded_request
from appliance.pipeline.prompt import Prompt, check_served, render_prompt
from appliance.registry.registry import Registry
from appliance.registry.wording import Voice


class Lexicon:
    """The tokens of every model whose files are on this machine. Event loop only.

    Nothing here takes a lease, loads a model or counts as use of one. What is asked for a model
    raises ModelNotFound, and ModelNotReady while its files are not here.
    """

    def __init__(self, registry: Registry, text: TextProcess) -> None:
        self._registry = registry
        self._text = text

    async def count(self, request: ChatRequest) -> int:
        """Return how many tokens the prompt has: what the answer's usage would say.

        Raises InvalidRequest as the request itself would; a prompt may be longer than the context.
        """
        return (await self._prompt(request)).num_tokens

    async def render(self, request: ChatRequest) -> list[int]:
        """Return the prompt's token ids; raises InvalidRequest as the request itself would."""
        content = (await self._prompt(request)).content
        if isinstance(content, ScriptPrompt):
            raise _no_tokens(request.model)
        return content.ids

    async def encode(self, model: str, text: str, *, adds_special: bool = True) -> list[int]:
        """Return the token ids of a text as it stands, with or without special ones around it."""
        name = (await self._voice(model)).text_name
        return await self._text.encode(name, text, adds_special=adds_special, limit_tokens=None)

    async def decode(self, model: str, ids: list[int]) -> str:
        """Return the text of token ids; raises InvalidRequest for an id that there is not."""
        return await self._text.decode((await self._voice(model)).text_name, ids)

    async def pieces(self, model: str, ids: list[int]) -> list[str]:
        """Return each token's own text; raises InvalidRequest for an id that there is not."""
        return await self._text.pieces((await self._voice(model)).text_name, ids)

    async def _prompt(self, request: ChatRequest) -> Prompt:
        voice = await self._registry.voice(request.model)
        check_served(request, voice.spec)
        request = bounded_request(request, voice, self._text)
        return await render_prompt(request, voice, self._text, None)

    async def _voice(self, model: str) -> Voice:
        voice = await self._registry.voice(model)
        if voice.spec.is_scripted():
            raise _no_tokens(model)
        return voice


def _no_tokens(model: str) -> InvalidRequest:
    return InvalidRequest(f"The model '{model}' is a script: it has no tokens.", param="model")
