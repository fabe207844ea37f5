"""Make what a request's engine is to continue, and say how long the answer may be."""

import msgspec

from appliance.chat.client import TextProcess
from appliance.chat.request import ChatRequest
from appliance.engine.wire import ScriptPrompt, TokenPrompt
from appliance.errors import ContextTooLong
from appliance.registry.lease import Lease


async def render_prompt(
    request: ChatRequest, lease: Lease, text: TextProcess, context_tokens: int
) -> TokenPrompt | ScriptPrompt:
    """Return the prompt in the model's own form; raises what the text process refuses it with."""
    spec = lease.spec
    if spec.is_scripted():
        return script_prompt(request)
    kwargs = spec.chat.template_kwargs | request.template_kwargs
    request = msgspec.structs.replace(request, template_kwargs=kwargs)
    return TokenPrompt(await text.render(lease.text_name, request, limit_tokens=context_tokens))


def answer_tokens(
    prompt: TokenPrompt | ScriptPrompt, asked: int | None, cap: int, context_tokens: int
) -> int:
    """Return how many tokens the answer may have; raises ContextTooLong."""
    if isinstance(prompt, ScriptPrompt):
        return asked or cap
    room = context_tokens - len(prompt.ids)
    if room <= 0 or (asked is not None and asked > room):
        raise ContextTooLong(
            limit_tokens=context_tokens,
            prompt_tokens=len(prompt.ids),
            max_tokens=(asked or 0) if room > 0 else 0,
        )
    return asked or min(room, cap)


def script_prompt(request: ChatRequest) -> ScriptPrompt:
    """Return what a scripted engine answers to: the last user message and the words of all."""
    last = ""
    words = 0
    for message in request.messages:
        content = message.content or ""
        words += len(content.split())
        if message.role == "user":
            last = content
    return ScriptPrompt(text=last, num_tokens=words)
