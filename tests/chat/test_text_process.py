"""Drive the real text process through its client."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from appliance.chat.client import TextProcess
from appliance.chat.request import ChatRequest, Message, Tool
from appliance.chat.template import ChatTemplate
from appliance.chat.tokenizer import Tokenizer
from appliance.errors import InvalidRequest, ModelNotReady, SourceError, TextProcessFailed
from tests.chat.tiny import CHATML, ask, write_model

pytestmark = pytest.mark.slow

# Each word as the whole first message makes the template misbehave.
SPITEFUL = (
    "{% if messages[0].content == 'loop' %}{% for a in range(90000) %}{% for b in range(90000) %}"
    "{% endfor %}{% endfor %}{% endif %}"
    "{% if messages[0].content == 'grow' %}{% set ns = namespace(x='aaaa') %}"
    "{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{% endif %}"
    "{% if messages[0].content == 'huge' %}{{ 'a' * 10 ** 12 }}{% endif %}"
    "{% if messages[0].content == 'lock' %}{{ 7 ** 1000 ** 1000 ** 300 }}{% endif %}" + CHATML
)


@asynccontextmanager
async def running(time_limit: float = 5.0, memory_limit: int = 2**31) -> AsyncIterator[TextProcess]:
    process = TextProcess(time_limit=time_limit, memory_limit=memory_limit)
    await process.start()
    try:
        yield process
    finally:
        await process.close()


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), 50))


def nested(depth: int) -> dict[str, object]:
    """Return a JSON Schema of an object in an object, and so on."""
    schema: dict[str, object] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def expected_ids(folder: Path, request: ChatRequest) -> list[int]:
    tokenizer = Tokenizer.load(folder)
    template = ChatTemplate.load(folder, tokenizer.special_tokens)
    return tokenizer.encode(template.render(request.messages, request.tools))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_render_returns_the_ids_of_the_prompt(tmp_path: Path) -> None:
    request = ChatRequest("any", (Message("system", "brief"), Message("user", "né 😀")))

    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            assert (await process.render("m", request)).ids == expected_ids(tmp_path, request)

    run(body)


def test_render_passes_tools_and_template_kwargs(tmp_path: Path) -> None:
    template = "{% for tool in tools or () %}{{ tool.function | tojson }}{% endfor %}{{ mood }}"
    folder = write_model(tmp_path, template)
    request = ChatRequest(
        "any",
        (Message("user", "x"),),
        tools=(Tool("look", parameters={"a": [1]}),),
        template_kwargs={"mood": "gay"},
    )

    async def body() -> None:
        async with running() as process:
            await process.configure("m", folder, None)
            prompt = await process.render("m", request)
            assert Tokenizer.load(folder).decode(prompt.ids) == (
                '{"name": "look", "parameters": {"a": [1]}}gay'
            )

    run(body)


def test_template_file_replaces_the_folders_own_at_any_time(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (tmp_path / "own.jinja").write_text("own")

    async def body() -> None:
        async with running() as process:
            await process.configure("m", folder, None)
            await process.configure("m", folder, tmp_path / "own.jinja")
            assert (await process.render("m", ask("x"))).tail == "own"

    run(body)


def test_long_prompts_of_several_callers_are_encoded_side_by_side(tmp_path: Path) -> None:
    requests = [ask(letter * 200_000) for letter in "abcdefgh"]

    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            renders = [process.render("m", request) for request in requests]
            assert [prompt.ids for prompt in await asyncio.gather(*renders)] == [
                expected_ids(tmp_path, request) for request in requests
            ]

    run(body)


def test_unknown_and_forgotten_models_are_not_ready(tmp_path: Path) -> None:
    async def body() -> None:
        async with running() as process:
            with pytest.raises(ModelNotReady):
                await process.render("m", ask("x"))
            await process.configure("m", write_model(tmp_path), None)
            await process.forget("m")
            with pytest.raises(ModelNotReady):
                await process.render("m", ask("x"))

    run(body)


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        pytest.param("tokenizer.json", None, r"tokenizer\.json: does not exist", id="absent"),
        pytest.param("tokenizer.json", "{", r"tokenizer\.json: is not a tokenizer", id="broken"),
        pytest.param("chat_template.jinja", "{% if %}", "template is wrong in line 1", id="wrong"),
    ],
)
def test_model_that_cannot_be_loaded_says_why(
    tmp_path: Path, name: str, text: str | None, named: str
) -> None:
    folder = write_model(tmp_path / "bad")
    (folder / name).unlink(missing_ok=True)
    if text is not None:
        (folder / name).write_text(text)

    async def body() -> None:
        async with running() as process:
            with pytest.raises(SourceError, match=named):
                await process.configure("bad", folder, None)
            with pytest.raises(ModelNotReady):
                await process.render("bad", ask("x"))
            await process.configure("good", write_model(tmp_path / "good"), None)
            assert await process.render("good", ask("x"))
            assert process.num_restarts == 0

    run(body)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(ask(), id="no messages"),
        pytest.param(ask("half \ud83d"), id="half a character"),
        pytest.param(
            ChatRequest("m", ask("x").messages, tools=(Tool("look", parameters={"n": 10**30}),)),
            id="number",
        ),
        pytest.param(
            ChatRequest("m", ask("x").messages, template_kwargs={"messages": []}), id="kwargs"
        ),
        pytest.param(ask("huge"), id="huge text"),
        pytest.param(
            ChatRequest("m", ask("x").messages, tools=(Tool("f", parameters=nested(900)),)),
            id="deep parameters",
        ),
    ],
)
def test_request_that_cannot_be_rendered_is_the_callers_fault(
    tmp_path: Path, request_: ChatRequest
) -> None:
    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path, SPITEFUL), None)
            with pytest.raises(InvalidRequest):
                await process.render("m", request_)
            assert await process.render("m", ask("x"))
            assert process.num_restarts == 0

    run(body)


@pytest.mark.parametrize(
    ("word", "time_limit", "reason"),
    [
        pytest.param("loop", 0.5, "time limit of 0.5 s", id="loops"),
        pytest.param("lock", 0.5, "time limit of 0.5 s", id="holds the interpreter lock"),
        pytest.param("grow", 40, "memory", id="takes memory"),
    ],
)
def test_spiteful_template_fails_its_own_request_only(
    tmp_path: Path, word: str, time_limit: float, reason: str
) -> None:
    async def body() -> None:
        async with running(time_limit=time_limit, memory_limit=2**27) as process:
            await process.configure("m", write_model(tmp_path / "m", SPITEFUL), None)
            await process.configure("n", write_model(tmp_path / "n"), None)
            bad = asyncio.create_task(process.render("m", ask(word)))
            good = [process.render(name, ask(f"ask {n}")) for n in range(20) for name in "mn"]
            answers = await asyncio.gather(*good)
            with pytest.raises(InvalidRequest, match=reason):
                await bad
            assert answers[0] == answers[1]
            assert answers[0].ids == expected_ids(tmp_path / "n", ask("ask 0"))
            assert process.num_restarts == 1

    run(body)


def test_abandoned_render_holds_nobody_up_for_long(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(time_limit=0.5) as process:
            await process.configure("m", write_model(tmp_path, SPITEFUL), None)
            bad = asyncio.create_task(process.render("m", ask("loop")))
            await asyncio.sleep(0)
            bad.cancel()
            assert await process.render("m", ask("x"))
            assert bad.cancelled()

    run(body)


def test_template_that_compiles_for_ever_fails_its_model_only(tmp_path: Path) -> None:
    # jinja2 computes constants while it compiles; this one doubles a text in a chain of filters.
    growing = "{{ 'aaaaaaaa'" + "|replace('a', 'aa')" * 60 + " }}"

    async def body() -> None:
        async with running(time_limit=0.5) as process:
            with pytest.raises(SourceError, match=r"takes over 0\.5 s to compile"):
                await process.configure("bad", write_model(tmp_path / "bad", growing), None)
            await process.configure("good", write_model(tmp_path / "good"), None)
            assert await process.render("good", ask("x"))

    run(body)


def test_killed_process_costs_no_request(tmp_path: Path) -> None:
    requests = [ask(f"{number}" * 2000) for number in range(50)]

    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            pid = process.pid
            assert pid is not None
            renders = [asyncio.create_task(process.render("m", each)) for each in requests]
            await asyncio.wait(renders, return_when=asyncio.FIRST_COMPLETED)
            os.kill(pid, signal.SIGKILL)
            answers = await asyncio.gather(*renders)
            await until(lambda: process.num_restarts == 1)
            assert [each.ids for each in answers] == [
                expected_ids(tmp_path, each) for each in requests
            ]
            assert process.pid not in (pid, None)

    run(body)


def test_request_that_saw_two_processes_die_fails(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(time_limit=60) as process:
            await process.configure("m", write_model(tmp_path, SPITEFUL), None)
            render = asyncio.create_task(process.render("m", ask("loop")))
            for restarts in (0, 1):
                await until(
                    lambda wanted=restarts: process.num_restarts == wanted  # type: ignore[misc]
                )
                assert process.pid is not None
                os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(TextProcessFailed):
                await render
            assert await process.render("m", ask("x"))

    run(body)


def test_interrupt_of_a_terminal_is_not_for_the_process(tmp_path: Path) -> None:
    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGINT)
            assert await process.render("m", ask("x"))
            assert process.num_restarts == 0

    run(body)


def test_close_ends_the_process_and_what_waits(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(time_limit=60) as process:
            await process.configure("m", write_model(tmp_path, SPITEFUL), None)
            pid = process.pid
            assert pid is not None
            render = asyncio.create_task(process.render("m", ask("loop")))
            await asyncio.sleep(0)
            await process.close()
            with pytest.raises(TextProcessFailed):
                await render
            assert is_gone(pid)
            assert process.pid is None

    run(body)


def test_event_loop_turns_while_tokenizers_load(tmp_path: Path) -> None:
    async def body() -> None:
        async with running() as process:
            folders = [write_model(tmp_path / name) for name in "abc"]
            loads = [process.configure(folder.name, folder, None) for folder in folders]
            loading = asyncio.gather(*loads)
            turns, started = 0, time.monotonic()
            while not loading.done():
                await asyncio.sleep(0)
                turns += 1
            await loading
            assert turns > 100 * (time.monotonic() - started)

    run(body)
