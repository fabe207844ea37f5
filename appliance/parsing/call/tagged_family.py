"""Declare how each family that writes its calls as tags does so."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

from dataclasses import replace

from appliance.parsing.call.nested import NestedSyntax
from appliance.parsing.call.tagged import TaggedSyntax

_TYPES = ("string", "number", "boolean", "null", "array", "object")

QWEN3_CODER = TaggedSyntax(
    call=("<function={}>\n", "</function>"),
    parameter=("<parameter={}>\n", "\n</parameter>\n"),
    block=("<tool_call>\n", "\n</tool_call>"),
    between="\n",
    has_python_words=True,
)
"""Qwen3-Coder, Qwen3.5 and Nemotron 3."""

STEP35 = replace(QWEN3_CODER, between="")
"""Step 3.5 Flash."""

SEED_OSS = TaggedSyntax(
    call=("<function={}>\n", "</function>"),
    parameter=("<parameter={}>", "</parameter>\n"),
    block=("<seed:tool_call>\n", "\n</seed:tool_call>"),
    between="\n",
    has_python_words=True,
)
"""Seed-OSS: its own block round tags as Qwen3-Coder has them."""

MINIMAX_M2 = TaggedSyntax(
    call=('<invoke name="{}">\n', "</invoke>\n"),
    parameter=('<parameter name="{}">', "</parameter>\n"),
    block=("<minimax:tool_call>\n", "</minimax:tool_call>"),
    is_shared=True,
)
"""MiniMax M2, which may call before it has closed its thought."""

MUSE_GLIMMER = TaggedSyntax(
    call=('<atem:invoke name="{}">\n', "</atem:invoke>\n"),
    parameter=('<atem:parameter name="{}">', "</atem:parameter>\n"),
    block=("<atem:function_calls>\n", "</atem:function_calls>"),
)
"""Muse Glimmer: each call is a message of its own to the function."""

DEEPSEEK_V32 = TaggedSyntax(
    call=('<｜DSML｜invoke name="{}">\n', "</｜DSML｜invoke>\n"),
    parameter=('<｜DSML｜parameter name="{}" string="{}">', "</｜DSML｜parameter>\n"),
    block=("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"),
    kinds=("true", "false"),
    is_shared=True,
)
"""DeepSeek V3.2."""

DEEPSEEK_V4 = replace(
    DEEPSEEK_V32, block=("<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>"), nothing="\n"
)
"""DeepSeek V4."""

GLM46 = TaggedSyntax(
    call=("<tool_call>{}\n", "</tool_call>"),
    parameter=("<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>\n"),
    between="\n",
)
"""GLM 4.5 and 4.6, Laguna XS."""

GLM47 = TaggedSyntax(
    call=("<tool_call>{}", "</tool_call>"),
    parameter=("<arg_key>{}</arg_key><arg_value>", "</arg_value>"),
)
"""GLM 4.7, Laguna S, Spark 2.5."""

LING3 = TaggedSyntax(
    call=("<tool_call>{}\n", "\n</tool_call>"),
    parameter=("<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>"),
    between="\n",
)
"""Ling 3.0."""

HY3 = TaggedSyntax(
    call=("<tool_call:opensource>{}<tool_sep:opensource>\n", "</tool_call:opensource>"),
    parameter=(
        "<arg_key:opensource>{}</arg_key:opensource>\n<arg_value:opensource>",
        "</arg_value:opensource>\n",
    ),
    block=("<tool_calls:opensource>\n", "\n</tool_calls:opensource>"),
    between="\n",
    is_shared=True,
)
"""Hunyuan 3."""

KIMI_K3 = TaggedSyntax(
    call=('<|open|>call tool="{}" index="{}"<|sep|>', "<|close|>call<|sep|>"),
    parameter=('<|open|>argument key="{}" type="{}"<|sep|>', "<|close|>argument<|sep|>"),
    block=("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
    kinds=_TYPES,
    is_shared=True,
)
"""Kimi K3."""

MINICPM5 = TaggedSyntax(
    call=('<function name="{}">', "</function>"),
    parameter=('<param name="{}">', "</param>"),
    between="\n",
    has_entities=True,
    has_python_words=True,
)
"""MiniCPM5: XML, with no block round it."""

MINIMAX_M3 = NestedSyntax(
    space="]<]minimax[>[",
    block=("]<]minimax[>[<tool_call>\n", "]<]minimax[>[</tool_call>"),
    call=(']<]minimax[>[<invoke name="{}">', "]<]minimax[>[</invoke>\n"),
)
"""MiniMax M3."""
