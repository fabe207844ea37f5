"""Calls in tags as users of other servers reported them, and what is read of them."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

from typing import Any

from appliance.chat.request import Tool
from appliance.parsing.call.tagged_family import (
    DEEPSEEK_V4,
    DEEPSEEK_V32,
    GLM47,
    MINICPM5,
    MINIMAX_M2,
    MINIMAX_M3,
    QWEN3_CODER,
)
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import Part
from tests.parsing.call.writing import sound

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
LONG = "w" * 60


def tool(name: str, **properties: Any) -> Tool:  # noqa: ANN401 - any schema
    return Tool(name, parameters={"type": "object", "properties": properties})


REPORTED_TOOLS = Toolbox(
    [
        tool("list_dir", path=STRING),
        tool("read", path=STRING),
        tool("log_event", day=INTEGER, size={"type": "number"}, tags={"type": "object"}),
        tool("bash", command=STRING),
        tool("get_weather", city=STRING),
        tool("w", city=STRING, days=INTEGER),
        tool(LONG, city=STRING, days=INTEGER),
        tool("q", opts={"type": "array"}),
    ]
)
DSML = (
    '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="w">\n'
    '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
)
DSML_BLOCK = ("<｜DSML｜tool_calls>\n", "\n</｜DSML｜tool_calls>")
DSML_CALL = DSML.removeprefix(DSML_BLOCK[0]).removesuffix(DSML_BLOCK[1])
DSML_SYNTAXES = (DEEPSEEK_V32, DEEPSEEK_V4)
PARIS = sound("w", city="Paris", days=3)
SPACE = "]<]minimax[>["

REPORTED: dict[str, tuple[tuple[CallSyntax, ...], str, list[Part]]] = {
    "B01": (
        (QWEN3_CODER,),
        "<tool_call>\n<function=list_dir>\n<parameter=path>\n/tmp\n</parameter>\n</function>\n"
        "</tool_call>",
        sound("list_dir", path="/tmp"),  # noqa: S108 - no file
    ),
    "B02": (
        (QWEN3_CODER,),
        "<function=read><parameter=path>a.txt</parameter></function>",
        sound("read", path="a.txt"),
    ),
    "B03": (
        (QWEN3_CODER,),
        "<function=log_event><parameter=day>2026-01-15</parameter></function>",
        sound("log_event", day="2026-01-15"),
    ),
    "B03 number, object, unknown": (
        (QWEN3_CODER,),
        "<function=log_event><parameter=size>big</parameter><parameter=tags>{a</parameter>"
        "<parameter=more>[b</parameter></function>",
        sound("log_event", size="big", tags="{a", more="[b"),
    ),
    "B04": (
        (QWEN3_CODER,),
        "<function=bash><parameter=command>\necho hi\n\nls\n</parameter></function>",
        sound("bash", command="echo hi\n\nls"),
    ),
    "B10": (
        (MINICPM5,),
        '<function name="read"><param name="path">/w/T.md</param></function>',
        sound("read", path="/w/T.md"),
    ),
    "B19": (
        (GLM47,),
        "get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>",
        sound("get_weather", city="Oslo"),
    ),
    "B21": (DSML_SYNTAXES, DSML, PARIS),
    "B21 other block": (DSML_SYNTAXES, DSML.replace("tool_calls", "function_calls"), PARIS),
    "B21 no block": (DSML_SYNTAXES, DSML_CALL, PARIS),
    "B21 unterminated block": (DSML_SYNTAXES, DSML_BLOCK[0] + DSML_CALL, PARIS),
    "B21 two calls": (
        DSML_SYNTAXES,
        DSML.replace(DSML_CALL, f"{DSML_CALL}\n{DSML_CALL}"),
        PARIS * 2,
    ),
    "B21 long name": (
        DSML_SYNTAXES,
        DSML.replace('"w"', f'"{LONG}"'),
        sound(LONG, city="Paris", days=3),
    ),
    "B23": (
        (MINIMAX_M2,),
        '<minimax:tool_call>\n<invoke name="w">\n<parameter name="city">Rome</parameter>\n'
        '<parameter name="days">5</parameter>\n</invoke>\n</minimax:tool_call>',
        sound("w", city="Rome", days=5),
    ),
    "B24": (
        (MINIMAX_M3,),
        f'{SPACE}<tool_call>\n{SPACE}<invoke name="q">\n{SPACE}<opts>{SPACE}<item>a{SPACE}</item>'
        f"{SPACE}<item>b{SPACE}</item>{SPACE}</opts>\n{SPACE}</invoke>\n{SPACE}</tool_call>",
        sound("q", opts=["a", "b"]),
    ),
}
