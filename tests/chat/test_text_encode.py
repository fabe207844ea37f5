"""What the text process does beside rendering: plain texts, ids, traits; and what it adds to it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from appliance.chat.request import ChatRequest, Message, Thinking, Tool, ToolChoice
from appliance.chat.tokenizer import Tokenizer
from appliance.errors import ContextTooLong, InvalidRequest, ModelNotReady, SourceError
from tests.chat.test_text_process import run, running
from tests.chat.tiny import CHATML, ask, write_model

pytestmark = pytest.mark.slow

FIM = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
SWITCHED = CHATML + "{{ '<think>' if enable_thinking else '</think>' }}"
TOOL = Tool("look")


def write_infill_model(folder: Path) -> Path:
    tokens = {
        str(1000 + number): {"content": text, "special": True} for number, text in enumerate(FIM)
    }
    return write_model(folder, added_tokens_decoder=tokens)


def test_encode_and_decode_are_each_others_reverse(tmp_path: Path) -> None:
    text = "né 😀 <|im_start|>"

    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            ids = await process.encode("m", text)
            assert ids == Tokenizer.load(tmp_path).encode(text)
            assert await process.decode("m", ids) == text
            pieces = await process.pieces("m", ids)
            assert len(pieces) == len(ids)
            assert (pieces[0], pieces[-1]) == ("n", "<|im_start|>")
            assert "\N{REPLACEMENT CHARACTER}" in pieces
            assert await process.decode("m", []) == ""

    run(body)


@pytest.mark.parametrize("bad", [-1, 10**6, 2**40])
def test_unknown_id_is_named_by_its_place(tmp_path: Path, bad: int) -> None:
    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            for ask_for in (process.decode, process.pieces):
                with pytest.raises(InvalidRequest, match=str(bad)) as raised:
                    await ask_for("m", [1, bad])
                assert raised.value.param == "tokens[1]"
            assert process.num_restarts == 0

    run(body)


def test_text_that_is_empty_or_too_long_is_refused(tmp_path: Path) -> None:
    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            with pytest.raises(InvalidRequest) as raised:
                await process.encode("m", "")
            assert raised.value.param == "prompt"
            with pytest.raises(ContextTooLong):
                await process.encode("m", "abc", limit_tokens=2)
            with pytest.raises(ModelNotReady):
                await process.encode("n", "abc")
            with pytest.raises(ModelNotReady):
                await process.decode("n", [1])

    run(body)


def test_suffix_is_asked_for_in_the_tokenizers_own_tokens(tmp_path: Path) -> None:
    async def body() -> None:
        async with running() as process:
            await process.configure("fim", write_infill_model(tmp_path / "fim"), None)
            await process.configure("plain", write_model(tmp_path / "plain"), None)
            ids = await process.encode("fim", "a", suffix="b")
            assert await process.decode("fim", ids) == "<fim_prefix>a<fim_suffix>b<fim_middle>"
            assert process.traits("fim").encodes_suffix
            assert not process.traits("plain").encodes_suffix
            with pytest.raises(InvalidRequest) as raised:
                await process.encode("plain", "a", suffix="b")
            assert raised.value.param == "suffix"

    run(body)


def test_traits_are_there_while_the_model_is(tmp_path: Path) -> None:
    async def body() -> None:
        async with running() as process:
            with pytest.raises(ModelNotReady):
                process.traits("m")
            await process.configure("m", write_model(tmp_path, SWITCHED), None)
            assert process.traits("m").template == SWITCHED
            assert process.traits("m").thinking_variable == "enable_thinking"
            await process.forget("m")
            with pytest.raises(ModelNotReady):
                process.traits("m")

    run(body)


@pytest.mark.parametrize(
    ("defaults", "thinking", "kwargs", "is_on"),
    [
        pytest.param({}, Thinking(), {}, False, id="as the template does it"),
        pytest.param({"enable_thinking": True}, Thinking(), {}, True, id="as the operator wants"),
        pytest.param({"enable_thinking": True}, Thinking(effort="none"), {}, False, id="wish"),
        pytest.param({}, Thinking(is_enabled=False), {"enable_thinking": True}, True, id="value"),
    ],
)
def test_wishes_go_before_defaults_and_values_before_wishes(
    tmp_path: Path,
    defaults: dict[str, bool],
    thinking: Thinking,
    kwargs: dict[str, bool],
    is_on: bool,
) -> None:
    request = replace(ask("x"), thinking=thinking, template_kwargs=kwargs)

    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path, SWITCHED), None)
            prompt = await process.render("m", request, defaults=defaults)
            assert prompt.tail.endswith("<think>" if is_on else "</think>")

    run(body)


def test_tail_is_the_end_of_the_prompt(tmp_path: Path) -> None:
    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            prompt = await process.render("m", ask("x" * 1000))
            assert len(prompt.tail) == 256
            assert prompt.tail.endswith("xx<|im_end|>\n<|im_start|>assistant\n")

    run(body)


def test_tools_that_the_template_cannot_show_are_refused_unless_none_may_be_called(
    tmp_path: Path,
) -> None:
    request = ChatRequest("m", ask("x").messages, tools=(TOOL,))

    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path), None)
            with pytest.raises(InvalidRequest) as raised:
                await process.render("m", request)
            assert raised.value.param == "tools"
            none = replace(request, tool_choice=ToolChoice("none"))
            assert await process.render("m", none) == await process.render("m", ask("x"))

    run(body)


def test_messages_are_made_such_that_the_template_can_show_them(tmp_path: Path) -> None:
    template = "{{ raise_exception('no') if messages[0].role == 'system' }}" + CHATML
    messages = (Message("developer", "rules"), Message("user", "x"))

    async def body() -> None:
        async with running() as process:
            await process.configure("m", write_model(tmp_path, template), None)
            prompt = await process.render("m", ChatRequest("m", messages))
            assert "<|im_start|>user\nrules\n\nx<|im_end|>" in prompt.tail

    run(body)


@pytest.mark.parametrize(
    ("trap", "time_limit", "reason"),
    [
        pytest.param("{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}"
                     "{% endfor %}", 2.0, "to compile and try", id="loops"),
        pytest.param("{% set ns = namespace(x='aaaa') %}{% for i in range(60) %}"
                     "{% set ns.x = ns.x ~ ns.x %}{% endfor %}", 40.0, "memory", id="takes memory"),
    ],
)  # fmt: skip
def test_template_that_misbehaves_when_it_is_tried_fails_its_model_only(
    tmp_path: Path, trap: str, time_limit: float, reason: str
) -> None:
    bad = "{% if messages[0].role == 'system' %}" + trap + "{% endif %}" + CHATML

    async def body() -> None:
        async with running(time_limit=time_limit, memory_limit=2**27) as process:
            await process.configure("good", write_model(tmp_path / "good"), None)
            with pytest.raises(SourceError, match=reason):
                await process.configure("bad", write_model(tmp_path / "bad", bad), None)
            assert await process.render("good", ask("x"))

    run(body)
