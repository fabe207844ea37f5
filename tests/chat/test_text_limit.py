"""How the text process keeps prompts that are too long, or that nobody waits for, from costing."""

import asyncio
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from appliance.channel import FrameSplitter
from appliance.chat import wire
from appliance.chat.process import Outbox, Renderer, TemplateWatch
from appliance.errors import ContextTooLong, ModelNotReady
from tests.chat.test_text_process import SPITEFUL, expected_ids, run, running, until
from tests.chat.tiny import CHATML, ask, write_model

pytestmark = pytest.mark.slow

# A second or so of work for every message that says so.
SLOW = (
    "{% if messages[0].content == 'slow' %}{% for a in range(9000) %}{% for b in range(900) %}"
    "{% endfor %}{% endfor %}{% endif %}" + CHATML
)


def test_prompt_may_have_as_many_tokens_as_the_limit(tmp_path: Path) -> None:
    request = ask("x" * 50)

    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            ids = expected_ids(tmp_path, request)
            assert (await process.render("m", request, limit_tokens=len(ids))).ids == ids
            with pytest.raises(ContextTooLong) as raised:
                await process.render("m", request, limit_tokens=len(ids) - 1)
            error = raised.value
            assert (error.limit_tokens, error.prompt_tokens) == (len(ids) - 1, len(ids))
            assert not error.is_at_least

    run(body)


@pytest.mark.parametrize(
    ("length", "counted"),
    [
        pytest.param(10**7, range(833_334, 833_340), id="cannot fit"),
        pytest.param(1_000_000, range(100_001, 170_000), id="does not fit"),
    ],
)
def test_prompt_far_over_the_limit_is_refused_without_counting_it_all(
    tmp_path: Path, length: int, counted: range
) -> None:
    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            with pytest.raises(ContextTooLong, match="at least") as raised:
                await process.render("m", ask("x" * length), limit_tokens=100_000)
            assert raised.value.is_at_least
            assert raised.value.prompt_tokens in counted

    run(body)


def test_huge_prompts_delay_nobody(tmp_path: Path) -> None:
    huge = ask("né " * 5_000_000)

    async def body() -> None:
        async with running(time_limit=30) as process:
            await process.configure("m", write_model(tmp_path), None)
            large = [
                asyncio.create_task(process.render("m", huge, limit_tokens=2_000_000))
                for _ in range(2)
            ]
            async with asyncio.timeout(15):
                assert await process.render("m", ask("x"), limit_tokens=2_000_000)
                refused = await asyncio.gather(*large, return_exceptions=True)
            assert all(isinstance(each, ContextTooLong) for each in refused)
            assert process.num_restarts == 0

    run(body)


def test_cancelled_renders_are_not_worked_on(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(time_limit=30) as process:
            await process.configure("m", write_model(tmp_path, SLOW), None)
            left = [asyncio.create_task(process.render("m", ask("slow"))) for _ in range(100)]
            await asyncio.sleep(0)
            for each in left:
                each.cancel()
            async with asyncio.timeout(20):
                assert await process.render("m", ask("x"))
            assert process.num_restarts == 0

    run(body)


def test_cancelled_render_is_answered_without_being_rendered(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    outbox = Outbox(theirs)
    renderer = Renderer(outbox, TemplateWatch(outbox, 2**31))
    messages = ask("x").messages
    renderer.receive(wire.Configure(1, "m", str(write_model(tmp_path))))
    renderer.receive(wire.Render(2, "m", messages))
    renderer.receive(wire.Render(3, "m", messages))
    renderer.receive(wire.Cancel(2))

    threading.Thread(target=renderer.run, daemon=True).start()

    splitter, decoder = FrameSplitter(), wire.from_text_decoder()
    frames: list[wire.FromText] = []
    while not (frames and isinstance(frames[-1], wire.Rendered)):
        frames += map(decoder.decode, splitter.feed(ours.recv(2**18)))
    about = [frame for frame in frames if frame.job == 2]
    assert about == [wire.TextFailed(2, "cancelled", "nobody waits for it")]
    assert frames[-1].job == 3
    ours.close()


@pytest.mark.parametrize("spoiled", ["tokenizer", "template"])
def test_model_that_a_new_process_cannot_load_says_why(tmp_path: Path, spoiled: str) -> None:
    template = tmp_path / "own.jinja"
    template.write_text(SPITEFUL)
    endless = "{{ 'aaaaaaaa'" + "|replace('a', 'aa')" * 60 + " }}"
    reason = "is not a tokenizer" if spoiled == "tokenizer" else "to compile and try"

    async def body() -> None:
        async with running(time_limit=1.0) as process:
            bad = write_model(tmp_path / "bad")
            await process.configure("bad", bad, template)
            await process.configure("good", write_model(tmp_path / "good"), None)
            if spoiled == "tokenizer":
                (bad / "tokenizer.json").write_text("{")
            else:
                template.write_text(endless)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            await until(lambda: process.num_restarts > 0)
            assert await process.render("good", ask("x"))
            with pytest.raises(ModelNotReady, match=reason):
                await process.render("bad", ask("x"))

    run(body)
