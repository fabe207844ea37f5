"""Calls that are tags, as each family writes them."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

from appliance.chat.request import Tool
from appliance.parsing.call.tagged import TaggedSyntax
from appliance.parsing.call.tagged_family import (
    DEEPSEEK_V4,
    DEEPSEEK_V32,
    GLM46,
    GLM47,
    HY3,
    KIMI_K3,
    LING3,
    MINICPM5,
    MINIMAX_M2,
    MUSE_GLIMMER,
    QWEN3_CODER,
    SEED_OSS,
    STEP35,
)
from appliance.parsing.toolbox import Toolbox

LONG = "tool_" + "x" * 55
STRING = {"type": "string"}
TOOLBOX = Toolbox(
    [
        Tool("read", parameters={"type": "object", "properties": {"path": STRING}}),
        Tool("set", parameters={"properties": {"n": {"type": "integer"}, "o": {"type": "object"}}}),
        Tool("say", parameters={"properties": {"text": {"type": ["string", "null"]}, "x": {}}}),
        Tool("now"),
        Tool("now_there"),
        Tool(LONG, parameters={"properties": {"path": STRING}}),
    ]
)

WRITTEN: dict[str, tuple[TaggedSyntax, str]] = {
    "qwen3 coder": (
        QWEN3_CODER,
        "<tool_call>\n<function=read>\n<parameter=path>\n/srv\n</parameter>\n</function>\n"
        "</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
    ),
    "step": (
        STEP35,
        "<tool_call>\n<function=read>\n<parameter=path>\n/srv\n</parameter>\n</function>\n"
        "</tool_call><tool_call>\n<function=now>\n</function>\n</tool_call>",
    ),
    "seed": (
        SEED_OSS,
        "<seed:tool_call>\n<function=read>\n<parameter=path>/srv</parameter>\n</function>\n"
        "</seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
    ),
    "minimax": (
        MINIMAX_M2,
        '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">/srv</parameter>\n'
        '</invoke>\n<invoke name="now">\n</invoke>\n</minimax:tool_call>',
    ),
    "muse": (
        MUSE_GLIMMER,
        '<atem:function_calls>\n<atem:invoke name="read">\n<atem:parameter name="path">/srv'
        "</atem:parameter>\n</atem:invoke>\n</atem:function_calls>\n"
        '<atem:function_calls>\n<atem:invoke name="now">\n</atem:invoke>\n</atem:function_calls>',
    ),
    "deepseek v3.2": (
        DEEPSEEK_V32,
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read">\n'
        '<｜DSML｜parameter name="path" string="true">/srv</｜DSML｜parameter>\n'
        '</｜DSML｜invoke>\n<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>",
    ),
    "deepseek v4": (
        DEEPSEEK_V4,
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="read">\n'
        '<｜DSML｜parameter name="path" string="true">/srv</｜DSML｜parameter>\n'
        '</｜DSML｜invoke>\n<｜DSML｜invoke name="now">\n\n</｜DSML｜invoke>\n'
        "</｜DSML｜tool_calls>",
    ),
    "glm 4.6": (
        GLM46,
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>/srv</arg_value>\n</tool_call>\n"
        "<tool_call>now\n</tool_call>",
    ),
    "glm 4.7": (
        GLM47,
        "<tool_call>read<arg_key>path</arg_key><arg_value>/srv</arg_value></tool_call>"
        "<tool_call>now</tool_call>",
    ),
    "ling": (
        LING3,
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>/srv</arg_value>\n</tool_call>\n"
        "<tool_call>now\n\n</tool_call>",
    ),
    "hunyuan": (
        HY3,
        "<tool_calls:opensource>\n<tool_call:opensource>read<tool_sep:opensource>\n"
        "<arg_key:opensource>path</arg_key:opensource>\n<arg_value:opensource>/srv"
        "</arg_value:opensource>\n</tool_call:opensource>\n<tool_call:opensource>now"
        "<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
    ),
    "kimi k3": (
        KIMI_K3,
        '<|open|>tools<|sep|><|open|>call tool="read" index="1"<|sep|><|open|>argument key="path"'
        ' type="string"<|sep|>/srv<|close|>argument<|sep|><|close|>call<|sep|><|open|>call '
        'tool="now" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
    ),
    "minicpm": (
        MINICPM5,
        '<function name="read"><param name="path">/srv</param></function>\n'
        '<function name="now"></function>',
    ),
}
