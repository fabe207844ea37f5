"""Declare how each family that writes its calls as a name and a JSON object does so."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

from appliance.parsing.call.named import NamedSyntax
from appliance.parsing.call.spelling import Id

_DEEPSEEK_CALL = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
_DEEPSEEK_CALLS = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")

MISTRAL = NamedSyntax("[TOOL_CALLS]", between=("[ARGS]",), bare="{}[ARGS]")
"""Mistral since Magistral, Devstral and Ministral 3."""

MISTRAL_ID = NamedSyntax(
    "[TOOL_CALLS]", between=("[CALL_ID]", Id("[a-zA-Z0-9]{9}"), "[ARGS]"), bare="{}[CALL_ID]"
)
"""Mistral Small 3.2: a call has its id with it."""

DEEPSEEK_V3 = NamedSyntax(
    *_DEEPSEEK_CALL,
    before=("function", "<｜tool▁sep｜>"),
    between=("\n```json\n",),
    after="\n```",
    wrapper=_DEEPSEEK_CALLS,
    gap=("\n",),
)
"""DeepSeek V3 and R1."""

DEEPSEEK_V31 = NamedSyntax(*_DEEPSEEK_CALL, between=("<｜tool▁sep｜>",), wrapper=_DEEPSEEK_CALLS)
"""DeepSeek V3.1."""

KIMI_K2 = NamedSyntax(
    "<|tool_call_begin|>",
    "<|tool_call_end|>",
    before=("functions.",),
    between=(":", Id("[0-9]{1,4}"), "<|tool_call_argument_begin|>"),
    wrapper=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    bare="functions.{}:",
)
"""Kimi K2: calls are numbered from the start of the conversation."""

SOLAR = NamedSyntax(
    "<|tool_call:begin|>",
    "<|tool_call:end|>",
    before=(Id("[a-z0-9]{10}"), "<|tool_call:name|>"),
    between=("<|tool_call:args|>",),
    wrapper=("<|tool_calls|>", "<|calls|>"),
    resumption=("<|begin|>", "assistant"),
)
"""Solar Open: calls are a turn of their own behind a thought."""

FUNCTION = NamedSyntax("<function=", "</function>", between=(">",))
"""Functionary 3.1, and Llama 3 where it was told so."""

FUNCTIONARY = NamedSyntax(">>>", between=("\n",), speech="all\n", is_begun=True)
"""Functionary 3.2: all that is said has a recipient; `all` is the user."""

KIMI_K3_OBJECT = NamedSyntax(
    '<|open|>call tool="',
    "<|close|>call<|sep|>",
    between=(
        '" index="',
        Id("[0-9]{1,4}"),
        '"',
        "<|sep|>",
        "<|open|>",
        'json type="object"',
        "<|sep|>",
    ),
    after="<|close|>json<|sep|>",
    wrapper=("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
)
"""Kimi K3, where it writes the arguments in one piece."""

SPOKEN = NamedSyntax("[Calling tool:", ")]", before=(" ",), between=("(",))
"""What models write that have seen calls only as other programs show them."""
