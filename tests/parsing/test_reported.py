"""Answers that users of other servers reported are read as they should be, wherever they are cut.

Those whose calls are in tags are in `call/reported_case.py`.
"""

import json
from typing import Any

import pytest

from appliance.chat.request import Tool
from appliance.parsing.format import AnswerFormat
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import Part, fold, read_pieces, splits

STRING = {"type": "string"}


def tool(name: str, **properties: Any) -> Tool:  # noqa: ANN401 - any schema
    return Tool(name, parameters={"type": "object", "properties": properties})


TOOLBOX = Toolbox(
    [
        *(tool("grep", q=STRING), tool("get_time", tz=STRING), tool("search"), tool("now")),
        *(tool("create-pdf", filename=STRING), tool("complete", task_id=STRING, note=STRING)),
        *(tool("get_weather", city=STRING), tool("read", file_path={}), tool("f")),
        *(tool("Read", file_path=STRING), tool("rm", path=STRING), tool("list_dir", path=STRING)),
        *(tool("glob", pattern=STRING), tool("set", items={"type": ["array", "null"]})),
    ]
)


def call(name: str, *, end: str = "sound", **arguments: object) -> list[Part]:
    text = json.dumps(arguments, ensure_ascii=False)
    return [("call", name), ("arguments", text), ("end", end)]


def text(raw: str) -> list[Part]:
    return [("text", raw)]


def thought(raw: str) -> list[Part]:
    return [("thought", raw)]


HERMES, MISTRAL = AnswerFormat("qwen3", "hermes"), AnswerFormat("mistral", "mistral")
GEMMA, HARMONY = AnswerFormat("gemma4", "gemma4"), AnswerFormat("harmony", "harmony")
LLAMA = AnswerFormat("none", "llama3")
OSLO = call("get_weather", city="Oslo")
LIST = '{"name":"list_dir","arguments":{"path":"."}}'
BUILT = '<tool_call>{"name":"now","arguments":{}}</tool_call>'
ANALYSIS = "<|channel|>analysis<|message|>need weather<|end|><|start|>assistant"
COMMENTARY = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
WEATHER = '{"city": "Oslo"}'

REPORTED: dict[str, tuple[AnswerFormat, str, list[Part]]] = {
    "B05": (HERMES, '[Calling tool: grep({"q":"x"})]', call("grep", q="x")),
    "B05 code": (HERMES, "let a = snake[", text("let a = snake[")),
    "B05 nullable": (
        HERMES,
        '<tool_call>{"name":"set","arguments":{"items": "[1, 2]"}}</tool_call>',
        call("set", items=[1, 2]),
    ),
    "B06": (HERMES, '<function=get_time>{"tz":"UTC"}</function>', call("get_time", tz="UTC")),
    "B11": (
        GEMMA,
        '<|tool_call>call:search{body:{aggs:{ip:{terms:{field:<|"|>client.keyword<|"|>,size:5}}}}}'
        "<tool_call|>",
        call("search", body={"aggs": {"ip": {"terms": {"field": "client.keyword", "size": 5}}}}),
    ),
    "B11 empty, twice": (
        GEMMA,
        "<|tool_call>call:now{}<tool_call|><|tool_call>call:search{@a:1}<tool_call|>",
        [*call("now"), ("call", "search"), ("arguments", '{"@a": 1}'), ("end", "sound")],
    ),
    "B12": (
        GEMMA,
        "<|tool_call>call:google:mcp:text:create-pdf{filename: 'a, b: {c}.pdf'}<tool_call|>",
        call("create-pdf", filename="a, b: {c}.pdf"),
    ),
    "B13": (
        GEMMA,
        '<|tool_call>call:complete(task_id="7", note="ok, done")<tool_call|>',
        call("complete", task_id="7", note="ok, done"),
    ),
    "B14": (
        HARMONY,
        f"{ANALYSIS}{COMMENTARY}{WEATHER}<|call|>",
        [*thought("need weather"), *OSLO],
    ),
    "B14 no start": (HARMONY, f"{COMMENTARY}{WEATHER}<|call|>", OSLO),
    "B14 no end": (HARMONY, f"{COMMENTARY}{WEATHER}", OSLO),
    "B14 pretty": (
        HARMONY,
        COMMENTARY + '{\n  "city": "Oslo"\n}<|call|>',
        [OSLO[0], ("arguments", '{\n  "city": "Oslo"\n}'), OSLO[2]],
    ),
    "B14 two": (
        HARMONY,
        f"{COMMENTARY}{WEATHER}<|call|><|start|>assistant{COMMENTARY}{WEATHER}<|call|>",
        OSLO * 2,
    ),
    "B15 final": (
        HARMONY,
        f"<|channel|>final to=functions.get_weather<|message|>{WEATHER}<|call|>",
        text(WEATHER),
    ),
    "B15 no function": (
        HARMONY,
        "<|channel|>commentary to=functions.python<|message|>{}<|call|>",
        text("{}"),
    ),
    "B16": (HARMONY, "<|channel|>analysis--commentary<|message|>hi<|end|>", text("hi")),
    "B20": (MISTRAL, '[TOOL_CALLS]read[ARGS]{"file_path": "/a"}', call("read", file_path="/a")),
    "B20 number": (MISTRAL, '[TOOL_CALLS]read[ARGS]{"file_path": 1}', call("read", file_path=1)),
    "B20 bare": (MISTRAL, 'Read[ARGS]{"file_path": "a"}', call("Read", file_path="a")),
    "B20 list": (
        MISTRAL,
        '[TOOL_CALLS][{"name":"read","arguments":{"file_path": "a"}}]',
        call("read", file_path="a"),
    ),
    "B20 two": (
        MISTRAL,
        '[TOOL_CALLS]read[ARGS]{"file_path": "a"}[TOOL_CALLS]now[ARGS]{}',
        [*call("read", file_path="a"), *call("now")],
    ),
    "B25": (
        AnswerFormat("none", "internlm"),
        '<|action_start|><|plugin|>{"name":"f","parameters":{}}<|action_end|>',
        call("f"),
    ),
    "B27": (
        LLAMA,
        '[{"name":"Apple"},{"name":"Pear"}]',
        text('[{"name":"Apple"},{"name":"Pear"}]'),
    ),
    "B28": (HERMES, f"{BUILT}\n{BUILT}{BUILT}", call("now") * 3),
    "B30": (
        HERMES,
        '<tool_call>{"name":"rm","arguments":{"path":"/tm',
        [("call", "rm"), ("arguments", '{"path":"/tm'), ("end", "broken")],
    ),
    "B31": (HERMES, "Hello", text("Hello")),
    "B32": (LLAMA, "Hello! How can I help?", text("Hello! How can I help?")),
    "B33": (HERMES, f"{BUILT}\n\n</tool_call>", call("now")),
    "B33 other": (HERMES, f"{BUILT}</_call>", call("now")),
    "C02": (HERMES, "<think>plan</think>answer", [*thought("plan"), *text("answer")]),
    "C05": (HERMES, "HELLO.", text("HELLO.")),
    "C08 only in a thought": (HERMES, f"<think>{BUILT}</think>", thought(BUILT)),
    "C08 twice": (HERMES, f"<think>{BUILT}</think>{BUILT}", [*thought(BUILT), *call("now")]),
    "C09": (
        AnswerFormat("none", "qwen3_coder"),
        "plan</think>\nAnswer",
        text("plan</think>\nAnswer"),
    ),
    "C10": (
        HERMES,
        "<think>t</think>Write `<think>` before and `</think>` after.",
        [*thought("t"), *text("Write `<think>` before and `</think>` after.")],
    ),
    "V08": (HERMES, LIST, [("call", "list_dir"), ("arguments", '{"path":"."}'), ("end", "sound")]),
    "V08 prose": (HERMES, f"So: {LIST} is it.", text(f"So: {LIST} is it.")),
    "V08 undeclared": (
        HERMES,
        '{"name":"cd","arguments":{}}',
        text('{"name":"cd","arguments":{}}'),
    ),
    "V10": (
        HERMES,
        "<tool_call>glob\n<arg_key>pattern</arg_key>\n<arg_value>**/a.md</arg_value>\n</tool_call>",
        [("call", "glob"), ("arguments", '{"pattern":"**/a.md"}'), ("end", "sound")],
    ),
    "V13": (MISTRAL, "[THINK]a[/THINK]b", [*thought("a"), *text("b")]),
    "V13 gemma": (GEMMA, "<|channel>thought\na<channel|>b", [*thought("a"), *text("b")]),
    "V13 seed": (
        AnswerFormat("seed", "seed"),
        "<seed:think>a</seed:think>b",
        [*thought("a"), *text("b")],
    ),
}


@pytest.mark.parametrize(("form", "raw", "parts"), REPORTED.values(), ids=REPORTED)
def test_answer_that_was_reported_is_read(form: AnswerFormat, raw: str, parts: list[Part]) -> None:
    for texts in splits(raw):
        assert compact(fold(read_pieces(texts, form, TOOLBOX))) == compact(parts), texts


def compact(parts: list[Part]) -> list[Part]:
    """Return what was read with arguments in one spelling, where they are JSON."""
    return [(kind, _respelled(said) if kind == "arguments" else said) for kind, said in parts]


def _respelled(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments))
    except ValueError:
        return arguments


@pytest.mark.parametrize(
    ("form", "raw", "begun", "parts"),
    [
        pytest.param(HERMES, "step 1 … step 2", "<think>", thought("step 1 … step 2"), id="C04"),
        pytest.param(HERMES, "<think>a</think>b", "<think>", [*thought("a"), *text("b")], id="C12"),
    ],
)
def test_thought_that_was_reported_goes_on(
    form: AnswerFormat, raw: str, begun: str, parts: list[Part]
) -> None:
    for texts in splits(raw):
        assert fold(read_pieces(texts, form, TOOLBOX, begun=begun)) == parts


def test_no_calls_are_read_where_no_tools_are_given() -> None:
    for raw in (BUILT, LIST, '[{"name":"Apple"},{"name":"Pear"}]'):
        assert fold(read_pieces([raw], HERMES, Toolbox())) == text(raw)
