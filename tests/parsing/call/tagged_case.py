"""Calls that are tags, written as no template writes them, and what is read of them."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

from appliance.parsing.call.tagged import TaggedSyntax
from appliance.parsing.call.tagged_family import (
    DEEPSEEK_V4,
    DEEPSEEK_V32,
    GLM46,
    GLM47,
    KIMI_K3,
    MINICPM5,
    MINIMAX_M2,
    QWEN3_CODER,
    SEED_OSS,
)
from tests.parsing.answer_reading import Part
from tests.parsing.call.tagged_writing import LONG
from tests.parsing.call.writing import sound

NOW = sound("now")
QWEN = "<function=say><parameter=text>{}</parameter></function>"
BROKEN = ("end", "broken")


def saying(text: str | None) -> list[Part]:
    return sound("say", text=text)


CASES: dict[str, tuple[TaggedSyntax, str, list[Part]]] = {
    "no block": (
        QWEN3_CODER,
        "<function=read><parameter=path>a.txt</parameter></function>",
        sound("read", path="a.txt"),
    ),
    "no closing of the function": (
        QWEN3_CODER,
        "<tool_call>\n<function=now>\n</tool_call>",
        NOW,
    ),
    "more closings": (
        MINIMAX_M2,
        '<invoke name="now"></invoke></invoke>\n\n</minimax:tool_call>',
        NOW,
    ),
    "one line end on each side": (
        QWEN3_CODER,
        QWEN.format("\n\n  echo hi\n\n\n"),
        saying("\n  echo hi\n\n"),
    ),
    "line ends that no template writes": (
        MINIMAX_M2,
        '<invoke name="read"><parameter name="path">\n/srv\n</parameter></invoke>',
        sound("read", path="\n/srv\n"),
    ),
    "only a line end": (QWEN3_CODER, QWEN.format("\n"), saying("")),
    "empty": (QWEN3_CODER, QWEN.format(""), saying("")),
    "closing tag in a value": (
        QWEN3_CODER,
        QWEN.format("a</parameter>b</parameter>\n</func</parameter></parameter>"),
        saying("a</parameter>b</parameter>\n</func</parameter></parameter>"),
    ),
    "closing tag with far too much space behind it": (
        GLM47,
        f"<tool_call>say<arg_key>text</arg_key><arg_value>a</arg_value>{' ' * 200}</tool_call>"
        "</arg_value></tool_call>",
        saying(f"a</arg_value>{' ' * 200}</tool_call>"),
    ),
    "other tags in a value": (
        QWEN3_CODER,
        QWEN.format('<parameter=x> </function> </tool_call> <think> &lt; \\ " \x07'),
        [
            ("call", "say"),
            (
                "arguments",
                r'{"text":"<parameter=x> </function> </tool_call> <think> &lt; \\ \" \u0007"}',
            ),
            ("end", "sound"),
        ],
    ),
    "entities where templates write none": (
        GLM47,
        "<tool_call>read<arg_key>path</arg_key><arg_value>&lt;</arg_value></tool_call>",
        sound("read", path="&lt;"),
    ),
    "a missing value": (QWEN3_CODER, QWEN.format("\nNone\n"), saying(None)),
    "no missing value": (QWEN3_CODER, QWEN.format("nullify"), saying("nullify")),
    "not quite a missing value": (QWEN3_CODER, QWEN.format("nul"), saying("nul")),
    "a wrong type": (
        QWEN3_CODER,
        "<function=set><parameter=n>2026-01-15</parameter></function>",
        sound("set", n="2026-01-15"),
    ),
    "values as python writes them": (
        SEED_OSS,
        "<function=set><parameter=o>{'a': [None, 'it\\'s']}</parameter><parameter=n>5</parameter>"
        "</function>",
        sound("set", o={"a": [None, "it's"]}, n=5),
    ),
    "a type that is not known": (
        QWEN3_CODER,
        "<function=say><parameter=x>[1]</parameter><parameter=y>1 a</parameter></function>",
        [("call", "say"), ("arguments", '{"x":[1],"y":"1 a"}'), ("end", "sound")],
    ),
    "kinds": (
        DEEPSEEK_V32,
        '<｜DSML｜invoke name="say">\n'
        '<｜DSML｜parameter name="x" string="true">5</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="y" string="false">5</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="text" string="true">null</｜DSML｜parameter>\n</｜DSML｜invoke>',
        sound("say", x="5", y=5, text="null"),
    ),
    "a kind that the schema knows better": (
        DEEPSEEK_V4,
        '<｜DSML｜invoke name="set">\n'
        '<｜DSML｜parameter name="n" string="true">5</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>",
        sound("set", n=5),
    ),
    "no kind": (
        DEEPSEEK_V4,
        '<｜DSML｜invoke name="set">\n<｜DSML｜parameter name="n">5</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>",
        sound("set", n=5),
    ),
    "an unterminated block and a long name": (
        DEEPSEEK_V4,
        f'<｜DSML｜tool_calls>\n<｜DSML｜invoke name="{LONG}">\n'
        '<｜DSML｜parameter name="path" string="true">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n',
        sound(LONG, path="a"),
    ),
    "no opening": (
        GLM47,
        "\n read<arg_key>path</arg_key><arg_value>Oslo</arg_value></tool_call>",
        sound("read", path="Oslo"),
    ),
    "no opening of a call without arguments": (
        GLM46,
        "now_there\n</tool_call>",
        sound("now_there"),
    ),
    "a name that another begins with": (
        GLM47,
        "<tool_call>now_there</tool_call>",
        sound("now_there"),
    ),
    "a name in prose": (
        GLM47,
        "now is a name, <arg_key> none",
        [("text", "now is a name, <arg_key> none")],
    ),
    "a longer name": (
        GLM47,
        "nowhere<arg_key>a</arg_key>",
        [("text", "nowhere<arg_key>a</arg_key>")],
    ),
    "a name behind prose": (GLM47, "It is now</tool_call>", [("text", "It is now</tool_call>")]),
    "marks in prose": (
        QWEN3_CODER,
        "Write <tool_call> or <function=now>, then <function=",
        [("text", "Write <tool_call> or <function=now>, then <function=")],
    ),
    "nothing but space behind a mark": (
        QWEN3_CODER,
        f"<tool_call>{' ' * 300}<function=now></function>",
        [("text", "<tool_call>"), *NOW],
    ),
    "XML": (
        MINICPM5,
        '<function name="say"><param name="text"><![CDATA[a <b> &amp; ]]> </param> c]]></param>'
        '<param name="x">&lt;&#65;&#x42;&nbsp;&quot;&amp</param></function>',
        sound("say", text="a <b> &amp; ]]> </param> c", x='<AB&nbsp;"&amp'),
    ),
    "XML in other values": (
        MINICPM5,
        "<function name=\"set\"><param name=\"o\">{'a': '&lt;'}</param>"
        '<param name="n">{&quot;a&quot;: 1}</param></function>',
        sound("set", o={"a": "&lt;"}, n='{"a": 1}'),
    ),
    "half an entity": (
        MINICPM5,
        '<function name="read"><param name="path">&am',
        [("call", "read"), ("arguments", '{"path":"&am'), BROKEN],
    ),
    "a value that is cut off": (
        QWEN3_CODER,
        "<function=set><parameter=o>{'a': 1",
        [("call", "set"), ("arguments", "{\"o\":{'a': 1"), BROKEN],
    ),
    "no XML": (
        MINICPM5,
        '<function name="read"><param name="path"><![CDA</param></function>',
        sound("read", path="<![CDA"),
    ),
    "no number": (
        KIMI_K3,
        '<|open|>call tool="now" index=1',
        [("text", '<|open|>call tool="now" index=1')],
    ),
    "no number's end": (
        KIMI_K3,
        '<|open|>call tool="now" index="1<|sep|>',
        [("text", '<|open|>call tool="now" index="1<|sep|>')],
    ),
    "text between parameters": (
        QWEN3_CODER,
        "<function=read>\n<parameter=path>\na\n</parameter>\nand\n</function>",
        [
            ("call", "read"),
            ("arguments", '{"path":"a\\n</parameter>\\nand\\n</function>'),
            BROKEN,
        ],
    ),
    "the same parameter again": (
        GLM47,
        "<tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value>"
        "<arg_key>path</arg_key><arg_value>b</arg_value></tool_call><tool_call>now</tool_call>",
        [
            ("call", "read"),
            ("arguments", '{"path":"a"'),
            BROKEN,
            (
                "text",
                "<arg_key>path</arg_key><arg_value>b</arg_value></tool_call><tool_call>now</tool_call>",
            ),
        ],
    ),
    "a parameter's name without an end": (
        QWEN3_CODER,
        "<function=read><parameter=path\na</parameter></function>" + "x" * 400,
        [
            ("call", "read"),
            BROKEN,
            ("text", "<parameter=path\na</parameter></function>" + "x" * 400),
        ],
    ),
    "no parameter at all": (
        GLM47,
        "<tool_call>read<arg_key>path</arg_key>a",
        [("call", "read"), BROKEN],
    ),
    "the end of the text behind a value": (
        QWEN3_CODER,
        "<function=read>\n<parameter=path>\na\n</parameter>\n</func",
        [("call", "read"), ("arguments", '{"path":"a"'), BROKEN],
    ),
}
