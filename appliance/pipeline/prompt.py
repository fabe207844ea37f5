"""Make what a request's engine is to continue, and say how long the answer may be."""

from dataclasses import dataclass

from appliance.chat.client import TextProcess
from appliance.chat.request import ChatRequest
from appliance.engine.wire import ScriptPrompt, TokenPrompt
from appliance.errors import ContextTooLong, InvalidRequest, MediaRefused
from appliance.manifest.spec import ModelSpec
from appliance.registry.lease import Lease
from appliance.registry.wording import Voice


@dataclass(frozen=True, slots=True)
class Prompt:
    """What an engine is to continue, and how its text ends, as far as that matters; "" if not."""

    content: TokenPrompt | ScriptPrompt
    tail: str = ""

    @property
    def num_tokens(self) -> int:
        """How many tokens the engine will read."""
        if isinstance(self.content, ScriptPrompt):
            return self.content.num_tokens
        return len(self.content.ids)


def check_served(request: ChatRequest, spec: ModelSpec) -> None:
    """Refuse what the model cannot honour; raises InvalidRequest or MediaRefused, which name it."""
    if spec.is_scripted():
        return
    if request.unserved:
        name = request.unserved[0]
        raise InvalidRequest(f"'{name}' is not supported by this model.", param=name)
    for message in request.messages:
        for media in message.media:
            raise MediaRefused(media.place)


async def render_prompt(
    request: ChatRequest, lease: Lease | Voice, text: TextProcess, limit_tokens: int | None
) -> Prompt:
    """Return the prompt in the model's own form; raises what the text process refuses it with."""
    if lease.spec.is_scripted():
        return Prompt(script_prompt(request))
    if request.prompt is not None:
        ids = await _encode_prompt(request, lease.text_name, text, limit_tokens)
        return Prompt(TokenPrompt(ids))
    rendered = await text.render(
        lease.text_name,
        request,
        defaults=lease.spec.chat.template_kwargs,
        limit_tokens=limit_tokens,
    )
    return Prompt(TokenPrompt(rendered.ids), rendered.tail)


async def _encode_prompt(
    request: ChatRequest, text_name: str, text: TextProcess, limit_tokens: int | None
) -> list[int]:
    prompt, suffix = request.prompt, request.suffix
    if isinstance(prompt, str):
        return await text.encode(text_name, prompt, suffix=suffix, limit_tokens=limit_tokens)
    if suffix is not None:
        raise InvalidRequest("A prompt of token ids can have no suffix.", param="suffix")
    if not prompt:
        raise InvalidRequest("The prompt is empty.", param="prompt")
    return list(prompt)


def answer_tokens(request: ChatRequest, prompt: Prompt, cap: int, context_tokens: int) -> int:
    """Return how many tokens the answer may have: at most `cap`, and what the context leaves.

    Raises ContextTooLong, if it leaves nothing or less than a request insists on.
    """
    asked = request.max_tokens
    most = cap if asked is None else min(asked, cap)
    if isinstance(prompt.content, ScriptPrompt):
        return most
    room = context_tokens - prompt.num_tokens
    is_short = asked is not None and most > room and not request.clamps_max_tokens
    if room <= 0 or is_short:
        raise ContextTooLong(
            limit_tokens=context_tokens,
            prompt_tokens=prompt.num_tokens,
            max_tokens=(asked or 0) if room > 0 else 0,
        )
    return min(most, room)


def script_prompt(request: ChatRequest) -> ScriptPrompt:
    """Return what a scripted engine answers to, and the words of the whole prompt.

    That is the last message of a user or a tool; of a prompt without messages it is the prompt,
    token ids as words.
    """
    prompt = request.prompt
    if prompt is not None:
        text = prompt if isinstance(prompt, str) else " ".join(map(str, prompt))
        return ScriptPrompt(text=text, num_tokens=len(text.split()))
    last = ""
    words = 0
    for message in request.messages:
        content = message.content or ""
        words += len(content.split())
        if message.role in ("user", "tool"):
            last = content
    return ScriptPrompt(text=last, num_tokens=words)
