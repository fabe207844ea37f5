"""A language model's prompt comes from the text process, in whichever form it was asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from appliance.chat.client import TextProcess
from appliance.chat.request import ChatRequest, Message
from appliance.engine.wire import TokenPrompt
from appliance.errors import ContextTooLong, InvalidRequest
from appliance.manifest.spec import ChatSpec, ModelSpec
from appliance.parsing.detect import choose_format
from appliance.pipeline.prompt import render_prompt
from appliance.registry.wording import Voice
from tests.chat.tiny import CHATML, write_model

THINKING = CHATML + "{{ mood }}<think>\n{# </think> #}"
VOICE = Voice(ModelSpec(name="m", source="path:/m", chat=ChatSpec()), "m")
HI = ChatRequest("m", (Message("user", "hi"),))


def with_text(folder: Path, test: Callable[[TextProcess], Awaitable[None]]) -> None:
    async def main() -> None:
        text = TextProcess()
        await text.start()
        try:
            await text.configure("m", write_model(folder, THINKING), None)
            await test(text)
        finally:
            await text.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_prompt_has_the_form_that_was_asked_for(tmp_path: Path) -> None:
    async def test(text: TextProcess) -> None:
        ids = await text.encode("m", "go on")

        prompts = [
            await render_prompt(ChatRequest("m", prompt=given), VOICE, text, 1000)
            for given in ("go on", tuple(ids))
        ]
        messages = await render_prompt(HI, VOICE, text, 1000)

        assert [prompt.content for prompt in prompts] == [TokenPrompt(ids)] * 2
        assert [prompt.tail for prompt in prompts] == ["", ""]
        assert messages.tail.endswith("assistant\n<think>\n")
        assert messages.num_tokens > len(ids)

    with_text(tmp_path, test)


def test_thought_that_the_template_begins_is_seen_in_the_prompt(tmp_path: Path) -> None:
    async def test(text: TextProcess) -> None:
        form = choose_format(ChatSpec(), text.traits("m"))

        prompt = await render_prompt(HI, VOICE, text, 1000)

        assert form.reasoning == "qwen3"
        assert form.begun(prompt.tail) == "<think>"

    with_text(tmp_path, test)


def test_values_of_the_manifest_reach_the_template(tmp_path: Path) -> None:
    async def test(text: TextProcess) -> None:
        spec = ModelSpec(
            name="m", source="path:/m", chat=ChatSpec(template_kwargs={"mood": "calm"})
        )
        own = ChatRequest("m", HI.messages, template_kwargs={"mood": "merry"})

        tails = [
            (await render_prompt(request, Voice(spec, "m"), text, 1000)).tail
            for request in (HI, own)
        ]

        assert ["calm" in tails[0], "merry" in tails[1]] == [True, True]

    with_text(tmp_path, test)


def test_prompt_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async def test(text: TextProcess) -> None:
        refused = {
            "suffix": ChatRequest("m", prompt=(1,), suffix="end"),
            "prompt": ChatRequest("m", prompt=()),
        }
        for param, request in refused.items():
            with pytest.raises(InvalidRequest) as failure:
                await render_prompt(request, VOICE, text, 1000)
            assert failure.value.param == param
        with pytest.raises(ContextTooLong):
            await render_prompt(ChatRequest("m", prompt="too long"), VOICE, text, 3)

    with_text(tmp_path, test)
