"""Each way of writing calls comes out alike in every dialect and SDK, streamed or not."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.appliance_server import RunningAppliance, running_appliance
from tests.dialect.answer import Answer, Call, Dialect, Json
from tests.dialect.chat import CHAT
from tests.dialect.completion import COMPLETION
from tests.dialect.message import MESSAGE
from tests.dialect.response import RESPONSE
from tests.dialect.script import rule, script_text
from tests.dialect.table import DIALECTS, ask_stream, ask_whole

THOUGHT, BEFORE = "Hm, so.", "I look."
TEXT = 'a < b, "q" & é 👋\nand so on, for as long as it takes'
QUOTED = r"a < b, \"q\" & é 👋\nand so on, for as long as it takes"
CALLS = (Call("f", {"text": TEXT}), Call("read_file", {}))
SIZES = (1, 5, 2, 9, 3, 13, 7)
SDK: Any = {"api_key": "any", "max_retries": 0, "_strict_response_validation": True}


@dataclass(frozen=True)
class Writing:
    """How a family writes an answer: `first` calls the function `@`, `second` read_file.

    `head` and `tail` stand round all calls, `thought` and `before` before them; "" is none.
    `stray` is what is shown of a call of an unknown function, if not all that was written.
    """

    reasoning: str
    tools: str
    thought: str
    before: str
    head: str
    first: str
    second: str
    tail: str
    stray: str = ""

    def whole(self) -> str:
        calls = self.first.replace("@", "f") + self.second
        return f"{self.thought}{self.before}{self.head}{calls}{self.tail}"

    def unknown(self) -> str:
        """Return the same with one call, of a function that nobody declared."""
        return f"{self.thought}{self.before}{self._unknown_call()}"

    def shown(self) -> str:
        """Return what a client is shown of that beside the thought."""
        return f"{BEFORE}{self.stray}" if self.stray else f"{self.before}{self._unknown_call()}"

    def _unknown_call(self) -> str:
        return f"{self.head}{self.first.replace('@', 'nobody')}{self.tail}"

    def form(self) -> str:
        """Return a structure in whose text stands all that else means something."""
        return json.dumps({"doc": f"{self.whole()}\n{self.whole()}"}, ensure_ascii=False)

    def cut(self) -> str:
        """Return the whole as far as into the first argument."""
        return self.whole().partition("so on")[0]


THINK = f"<think>\n{THOUGHT}\n</think>\n\n"
OBJECT = f'"arguments": {{"text": "{QUOTED}"}}'
WRITINGS = {
    "JSON body": Writing(
        "qwen3",
        "hermes",
        THINK,
        f"{BEFORE}\n",
        "<tool_call>\n",
        f'{{"name": "@", {OBJECT}}}\n</tool_call>',
        '\n<tool_call>\n{"name": "read_file", "arguments": {}}\n</tool_call>',
        "",
    ),
    "list of JSON": Writing(
        "qwen3",
        "nemotron",
        THINK,
        f"{BEFORE}\n",
        "<TOOLCALL>[",
        f'{{"name": "@", {OBJECT}}}',
        ', {"name": "read_file", "arguments": {}}',
        "]</TOOLCALL>",
    ),
    "name and JSON": Writing(
        "mistral",
        "mistral",
        f"[THINK]{THOUGHT}[/THINK]",
        BEFORE,
        "",
        f'[TOOL_CALLS]@[ARGS]{{"text": "{QUOTED}"}}',
        "[TOOL_CALLS]read_file[ARGS]{}",
        "",
    ),
    "numbered name and JSON": Writing(
        "kimi",
        "kimi_k2",
        f"<think>{THOUGHT}</think>",
        BEFORE,
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>functions.@:0<|tool_call_argument_begin|>"
        f'{{"text": "{QUOTED}"}}<|tool_call_end|>',
        "<|tool_call_begin|>functions.read_file:1<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ),
    "tags": Writing(
        "qwen3",
        "qwen3_coder",
        THINK,
        f"{BEFORE}\n\n",
        "",
        f"<tool_call>\n<function=@>\n<parameter=text>\n{TEXT}\n</parameter>\n</function>\n"
        "</tool_call>\n",
        "<tool_call>\n<function=read_file>\n</function>\n</tool_call>",
        "",
    ),
    "tagged keys": Writing(
        "glm",
        "glm47",
        f"<think>{THOUGHT}</think>",
        BEFORE,
        "",
        f"<tool_call>@<arg_key>text</arg_key><arg_value>{TEXT}</arg_value></tool_call>",
        "<tool_call>read_file</tool_call>",
        "",
    ),
    "nested tags": Writing(
        "deepseek_r1",
        "deepseek_v32",
        f"<think>{THOUGHT}</think>",
        f"{BEFORE}\n\n",
        "<｜DSML｜function_calls>\n",
        '<｜DSML｜invoke name="@">\n'
        f'<｜DSML｜parameter name="text" string="true">{TEXT}</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n",
        '<｜DSML｜invoke name="read_file">\n</｜DSML｜invoke>\n',
        "</｜DSML｜function_calls>",
    ),
    "namespaced tags": Writing(
        "minimax_m3",
        "minimax_m3",
        f"<mm:think>{THOUGHT}</mm:think>",
        BEFORE,
        "]<]minimax[>[<tool_call>\n",
        ']<]minimax[>[<invoke name="@">]<]minimax[>[<text>'
        f"{TEXT}]<]minimax[>[</text>]<]minimax[>[</invoke>\n",
        ']<]minimax[>[<invoke name="read_file">]<]minimax[>[</invoke>\n',
        "]<]minimax[>[</tool_call>",
    ),
    "Python": Writing(
        "none",
        "llama4",
        "",
        f"{BEFORE}\n",
        "<|python_start|>[",
        f"@(text={TEXT!r})",
        ", read_file()",
        "]<|python_end|>",
    ),
    "bare Python": Writing(
        "none", "pythonic", "", "", "[", f"@(text={TEXT!r})", ", read_file()", "]"
    ),
    "Gemma 4": Writing(
        "gemma4",
        "gemma4",
        f"<|channel>thought\n{THOUGHT}\n<channel|>",
        BEFORE,
        "",
        f'<|tool_call>call:@{{text:<|"|>{TEXT}<|"|>}}<tool_call|>',
        "<|tool_call>call:read_file{}<tool_call|>",
        "",
    ),
    "channels": Writing(
        "harmony",
        "harmony",
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|>",
        f"<|start|>assistant<|channel|>commentary<|message|>{BEFORE}<|end|>",
        "",
        "<|start|>assistant<|channel|>commentary to=functions.@ <|constrain|>json<|message|>"
        f'{{"text": "{QUOTED}"}}<|call|>',
        "<|start|>assistant<|channel|>commentary to=functions.read_file <|constrain|>json"
        "<|message|>{}<|call|>",
        "",
        stray=f'{{"text": "{QUOTED}"}}',
    ),
}

OFTEN = ("JSON body", "tags", "Gemma 4", "channels")
NAMES = [each if each in OFTEN else pytest.param(each, marks=pytest.mark.slow) for each in WRITINGS]
"""The fast part knows a few: each takes a worker of its own."""


def pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces of odd sizes."""
    sizes = cycle(SIZES)
    while text:
        size = next(sizes)
        yield text[:size]
        text = text[size:]


@pytest.fixture(scope="module")
def served() -> Iterator[RunningAppliance]:
    """Serve one script under a name for each way of writing, which is also how it is asked."""
    lines = ["version: 1", "models:", "  - {name: all, source: 'scripted:script.yaml'}"]
    rules = []
    for each in WRITINGS.values():
        chat = f"{{reasoning_parser: {each.reasoning}, tool_parser: {each.tools}}}"
        lines.append(f"  - {{name: {each.tools}, like: all, chat: {chat}}}")
        rules += [
            rule(f"^{each.tools} whole$", pieces(each.whole())),
            rule(f"^{each.tools} unknown$", pieces(each.unknown())),
            rule(f"^{each.tools} cut$", pieces(each.cut()), finish="length"),
            rule(f"^{each.tools} form$", pieces(each.form())),
        ]
    with running_appliance("\n".join(lines), {"script.yaml": script_text(rules)}) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: RunningAppliance) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=30) as http:
        yield http


def ask(
    client: httpx.Client, dialect: Dialect, each: Writing, what: str, /, **fields: object
) -> Answer:
    """Return what is answered alike, streamed and not; with the pieces of the stream."""
    text = f"{each.tools} {what}"

    whole = ask_whole(client, dialect, text, model=each.tools, **fields)
    stream = ask_stream(client, dialect, text, model=each.tools, **fields)

    assert stream == whole
    return stream


def check_whole(answer: Answer, each: Writing, dialect: Dialect) -> None:
    thought, text = THOUGHT if each.thought else "", BEFORE if each.before else ""
    assert (answer.thought, answer.text, answer.calls) == (thought, text, CALLS)
    assert answer.finish == "tool_calls"
    prefix = "toolu_" if dialect is MESSAGE else "call_"
    assert all(name.startswith(prefix) for name in answer.ids)
    assert len(set(answer.ids)) == len(CALLS)


@pytest.mark.parametrize("dialect", [CHAT, RESPONSE, MESSAGE], ids=lambda each: each.name)
@pytest.mark.parametrize("name", NAMES)
def test_calls_come_while_they_are_written(
    client: httpx.Client, name: str, dialect: Dialect
) -> None:
    each = WRITINGS[name]

    answer = ask(client, dialect, each, "whole")

    check_whole(answer, each, dialect)
    fragments = [delta for delta in answer.deltas if delta not in f"{THOUGHT} {BEFORE}"]
    assert len(fragments) > 6


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
@pytest.mark.parametrize("name", NAMES)
def test_unknown_call_is_text_and_a_cut_one_says_so(
    client: httpx.Client, name: str, dialect: Dialect
) -> None:
    each = WRITINGS[name]
    is_plain = dialect is COMPLETION

    unknown = ask(client, dialect, each, "unknown")
    cut = ask(client, dialect, each, "cut")

    assert unknown.text == (each.unknown() if is_plain else each.shown())
    assert (unknown.calls, unknown.finish, cut.finish) == ((), "stop", "length")
    assert len(cut.calls) == (0 if dialect in (COMPLETION, MESSAGE) else 1)


FORMED: list[tuple[Dialect, Json]] = [
    (CHAT, {"response_format": {"type": "json_object"}}),
    (RESPONSE, {"text": {"format": {"type": "json_object"}}}),
    (MESSAGE, {"output_config": {"format": {"type": "json_schema", "schema": {}}}}),
]
"""How each dialect asks for a structure."""


@pytest.mark.parametrize("name", NAMES)
def test_structure_leaves_as_it_is_written(client: httpx.Client, name: str) -> None:
    each = WRITINGS[name]

    for dialect, fields in FORMED if name == "Gemma 4" else FORMED[:1]:
        answer = ask(client, dialect, each, "form", **fields)

        assert (answer.text, answer.thought, answer.calls) == (each.form(), "", ())
        assert answer.finish == "stop"
        assert len(answer.deltas) > 6


@pytest.fixture(scope="module")
def by_openai(served: RunningAppliance) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", **SDK) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def by_anthropic(served: RunningAppliance) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.url, **SDK) as sdk:
        yield sdk


def read_chat(sdk: openai.OpenAI, body: Any) -> list[Json]:  # noqa: ANN401 - any JSON
    """Return an answer as the SDK reads it, at once and put together from a stream."""
    for tool in body["tools"]:
        tool["function"]["strict"] = True  # its helper takes no others
    with sdk.chat.completions.stream(**body, stream_options={"include_usage": True}) as stream:
        completion = stream.get_final_completion()
    return [sdk.chat.completions.create(**body).model_dump(), completion.model_dump()]


def read_response(sdk: openai.OpenAI, body: Any) -> list[Json]:  # noqa: ANN401 - any JSON
    """Return what `read_chat` does."""
    with sdk.responses.stream(**body) as stream:
        response = stream.get_final_response()
    return [sdk.responses.create(**body).model_dump(), response.model_dump()]


def read_message(sdk: anthropic.Anthropic, body: Any) -> list[Json]:  # noqa: ANN401 - any JSON
    """Return what `read_chat` does."""
    with sdk.messages.stream(**body) as stream:
        message = stream.get_final_message()
    return [sdk.messages.create(**body).model_dump(), message.model_dump()]


@pytest.mark.parametrize("name", NAMES)
def test_official_sdks_read_the_same(
    by_openai: openai.OpenAI, by_anthropic: anthropic.Anthropic, name: str
) -> None:
    each = WRITINGS[name]

    def body(dialect: Dialect) -> Json:
        return dialect.ask(f"{each.tools} whole", {"model": each.tools})

    for dialect, bodies in (
        (CHAT, read_chat(by_openai, body(CHAT))),
        (RESPONSE, read_response(by_openai, body(RESPONSE))),
        (MESSAGE, read_message(by_anthropic, body(MESSAGE))),
    ):
        for answer in map(dialect.read_whole, bodies):
            check_whole(answer, each, dialect)
