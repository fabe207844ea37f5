"""Declare how each family that writes its calls as JSON objects does so."""

from appliance.parsing.call.json_body import JsonBody, Spelling

_STARTS = ("{", "[{", "[ {", "[\n", "```json", "```\n")
_LISTED = '{"name": $name, "arguments": $arguments}'


def _list(before: str, after: str, item: str = _LISTED) -> Spelling:
    return Spelling(item, before + "[", ", ", "]" + after)


BARE = JsonBody(bare=_STARTS)
"""A whole answer that is a call, or a list of them, in a fence or not."""

LIST = JsonBody(bare=_STARTS, is_list=True, spelling=_list("", ""))
"""xLAM: a bare list."""

HERMES = JsonBody(
    marks=("<tool_call>",),
    closings=("</tool_call>", "</_call>"),
    spelling=Spelling(f"<tool_call>\n{_LISTED}\n</tool_call>"),
)
"""Hermes, Qwen, Granite 4, SmolLM3, Bielik, Reka, MiMo."""

GRANITE = JsonBody(marks=("<|tool_call|>",), spelling=_list("<|tool_call|>", ""))
"""Granite 3: a mark and a list."""

PHI = JsonBody(
    marks=("<|tool_call|>",),
    closings=("<|/tool_call|>",),
    spelling=_list("<|tool_call|>", "<|/tool_call|>"),
)
"""Phi 4 mini."""

FUNCTOOLS = JsonBody(marks=("functools",), spelling=_list("functools", ""))
"""Firefunction, and Phi 4 at times."""

NEMOTRON = JsonBody(
    marks=("<TOOLCALL>",), closings=("</TOOLCALL>",), spelling=_list("<TOOLCALL>", "</TOOLCALL>")
)
"""Nemotron Nano 2."""

TOOL_CALLS = JsonBody(
    marks=("<tool_calls>",),
    closings=("</tool_calls>",),
    is_list=True,
    spelling=_list("<tool_calls>", "</tool_calls>"),
)
"""Apriel and Hunyuan A13B."""

MINIMAX_M1 = JsonBody(
    marks=("<tool_calls>",),
    closings=("</tool_calls>",),
    is_list=False,
    spelling=Spelling(_LISTED, "<tool_calls>\n", "\n", "\n</tool_calls>"),
)
"""MiniMax M1: one object a line."""

MISTRAL = JsonBody(
    marks=("[TOOL_CALLS]",),
    spelling=_list("[TOOL_CALLS]", "", '{"name": $name, "arguments": $arguments, "id": "$id"}'),
)
"""Mistral up to Nemo; xLAM without ids."""

LLAMA = JsonBody(
    marks=("<|python_tag|>",),
    bare=_STARTS,
    argument_keys=("parameters", "arguments"),
    spelling=Spelling('{"name": $name, "parameters": $arguments}', between="; "),
)
"""Llama 3: a bare object, some behind a mark."""

COHERE = JsonBody(
    marks=("<|START_ACTION|>",),
    closings=("<|END_ACTION|>",),
    name_keys=("tool_name", "name"),
    argument_keys=("parameters", "arguments"),
    spelling=Spelling(
        '{"tool_call_id": "$id", "tool_name": $name, "parameters": $arguments}',
        "<|START_ACTION|>[\n    ",
        ",\n    ",
        "\n]<|END_ACTION|>",
        id_pattern="[0-9]{1,3}",
    ),
)
"""Command R7B, Command A."""

COMMAND_R = JsonBody(
    marks=("Action:\n```json", "Action: ```json", "Action:```json"),
    name_keys=("tool_name", "name"),
    argument_keys=("parameters", "arguments"),
    spelling=Spelling(
        '    {\n        "tool_name": $name,\n        "parameters": $arguments\n    }',
        "Action:\n```json\n[\n",
        ",\n",
        "\n]```",
    ),
)
"""Command R and R+."""

INTERNLM = JsonBody(
    marks=("<|action_start|><|plugin|>", "<|action_start|>\n<|plugin|>", "<|plugin|>"),
    closings=("<|action_end|>",),
    argument_keys=("parameters", "arguments"),
    spelling=Spelling(
        '<|action_start|><|plugin|>\n{"name": $name, "parameters": $arguments}<|action_end|>'
    ),
)
"""InternLM 2.5 and 3."""

APERTUS = JsonBody(
    marks=("<|tools_prefix|>",),
    closings=("<|tools_suffix|>",),
    name_keys=(),
    spelling=_list("<|tools_prefix|>", "<|tools_suffix|>", "{$name: $arguments}"),
)
"""Apertus: the name is the key."""

GIGACHAT = JsonBody(marks=("<|function_call|>",), spelling=Spelling(f"<|function_call|>{_LISTED}"))
"""GigaChat 3.1."""

GIGACHAT_ROLE = JsonBody(
    marks=(
        "<|message_sep|>\n\nfunction call<|role_sep|>",
        "function call<|role_sep|>",
    ),
    spelling=Spelling(f"<|message_sep|>\n\nfunction call<|role_sep|>\n{_LISTED}"),
)
"""GigaChat 3: a turn of another role."""
