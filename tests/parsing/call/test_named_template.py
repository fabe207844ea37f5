"""What the models' own templates write as a name and an object is read back as it was."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

import json
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.probe import find_traits
from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.template import ChatTemplate
from appliance.parsing.call.channel_family import HARMONY
from appliance.parsing.call.named_family import (
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    FUNCTION,
    FUNCTIONARY,
    KIMI_K2,
    MISTRAL,
    MISTRAL_ID,
    SOLAR,
)
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox
from tests.chat.gallery import SPECIAL_TOKENS, Template, read_sources
from tests.parsing.answer_reading import fold, read_pieces
from tests.parsing.call.framing import Framing
from tests.parsing.grammar.trial import judge

# Each of these templates is long to compile.
pytestmark = pytest.mark.slow


class Family(NamedTuple):
    """A template, and between which marks of its own its calls stand behind the question."""

    template: str
    syntax: CallSyntax
    begin: str
    end: str
    begun: str = ""


KIMI_END = "<|im_end|>"
FAMILIES = [
    Family("Mistral-Small-3.2-24B-Instruct-2506", MISTRAL_ID, "", "</s>"),
    Family("mistralai-Ministral-3-14B-Reasoning-2512", MISTRAL, "", "</s>"),
    Family("unsloth-mistral-Devstral-Small-2507", MISTRAL, "", "</s>"),
    Family("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", DEEPSEEK_V3, "", "<｜end▁of▁sentence｜>"),
    Family("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", DEEPSEEK_V3, "", "<｜end▁of▁sentence｜>"),
    Family("llama-cpp-deepseek-r1", DEEPSEEK_V3, "", "<｜end▁of▁sentence｜>"),
    Family("deepseek-ai-DeepSeek-V3.1", DEEPSEEK_V31, "", "<｜end▁of▁sentence｜>"),
    Family("Kimi-K2-Instruct", KIMI_K2, "", KIMI_END),
    Family("Kimi-K2-Thinking", KIMI_K2, "", KIMI_END),
    Family("moonshotai-Kimi-K2", KIMI_K2, "", KIMI_END),
    Family("upstage-Solar-Open-100B", SOLAR, "", ""),
    Family("meetkai-functionary-medium-v3.1", FUNCTION, "", "<|eom_id|>"),
    Family("meetkai-functionary-medium-v3.2", FUNCTIONARY, ">>>", "<|eot_id|>", ">>>"),
    Family("openai-gpt-oss-120b", HARMONY, "<|start|>assistant", "", "<|start|>assistant"),
]
QUESTION = "What is going on?"
TOOLS = (Tool("now", "the time"), Tool("get_weather", "how it is"), Tool("Read-file_2", "reads"))
TOOLBOX = Toolbox(TOOLS)

LETTERS = st.sampled_from([*'ab "\\/{}[]<>|:,`\n\t', "é", "😀", "'", "</function>", "<|call|>"])
TEXTS = st.lists(LETTERS, max_size=12).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(TEXTS.filter(bool), VALUES, max_size=3)
# Some templates end the turn behind the second call.
CALLS = st.lists(
    st.tuples(st.sampled_from([tool.name for tool in TOOLS]), ARGUMENTS), min_size=1, max_size=2
)


@cache
def template(name: str) -> Template:
    compiled = ChatTemplate({"default": read_sources()[name]}, SPECIAL_TOKENS, name)
    return Template(name, compiled, find_traits(compiled))


def write(family: Family, calls: list[tuple[str, dict[str, object]]]) -> str:
    """Return how the template writes calls, behind what stands at the end of a prompt."""
    size = 10 if family.syntax is SOLAR else 9
    turn = Message(
        "assistant",
        tool_calls=tuple(
            ToolCall(f"{number:0{size}}", name, json.dumps(arguments))
            for number, (name, arguments) in enumerate(calls)
        ),
    )
    messages = (Message("user", QUESTION), turn)
    whole = template(family.template).render(messages, *TOOLS, add_generation_prompt=False)
    answer = whole[whole.index(QUESTION) :]
    begin = family.begin or family.syntax.openings(TOOLBOX)[0]
    answer = answer[answer.index(begin) + len(family.begin) :]
    return answer.partition(family.end)[0] if family.end else answer


@pytest.mark.parametrize("family", FAMILIES, ids=[family.template for family in FAMILIES])
@settings(max_examples=8, deadline=None)
@given(calls=CALLS)
def test_calls_that_a_template_writes_are_read_back(
    family: Family, calls: list[tuple[str, dict[str, object]]]
) -> None:
    calls = calls[:1] if family.syntax is HARMONY else calls
    form = Framing(calls=(family.syntax,))

    parts = fold(read_pieces(list(write(family, calls)), form, TOOLBOX, begun=family.begun))

    assert [kind for kind, _ in parts] == ["call", "arguments", "end"] * len(calls)
    read = zip(parts[::3], parts[1::3], strict=True)
    assert [(name, json.loads(arguments)) for (_, name), (_, arguments) in read] == calls


@pytest.mark.parametrize("family", FAMILIES[:-1], ids=[each.template for each in FAMILIES[:-1]])
def test_calls_that_a_template_writes_are_what_the_grammar_allows(family: Family) -> None:
    calls: list[tuple[str, dict[str, object]]] = [("now", {}), ("get_weather", {"city": "Oslo"})]
    rules = Rules()
    grammar = rules.build(family.syntax.grammar(rules, TOOLBOX, is_single=False))

    assert judge(grammar, write(family, calls)) == "complete"
