"""Calls with plain values are read back as the models' own templates write them."""

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.probe import find_traits
from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.template import ChatTemplate
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
    MINIMAX_M3,
    MUSE_GLIMMER,
    QWEN3_CODER,
    SEED_OSS,
    STEP35,
)
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.grammar.schema import enforceable
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox
from tests.chat.gallery import SPECIAL_TOKENS, Template, read_sources
from tests.parsing.answer_reading import fold, read_pieces
from tests.parsing.call.writing import Writing
from tests.parsing.grammar.trial import judge

# Each of these templates is long to compile.
pytestmark = pytest.mark.slow

FAMILIES: dict[str, CallSyntax] = {
    "ByteDance-Seed-OSS": SEED_OSS,
    "GLM-4.6": GLM46,
    "GLM-4.7-Flash": GLM47,
    "Kimi-K3": KIMI_K3,
    "MiniMax-M2": MINIMAX_M2,
    "MiniMax-M3": MINIMAX_M3,
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": QWEN3_CODER,
    "Qwen3-Coder": QWEN3_CODER,
    "Qwen3.5-4B": QWEN3_CODER,
    "Spark2.5": GLM47,
    "StepFun3.5-Flash": STEP35,
    "deepseek-ai-DeepSeek-V3.2": DEEPSEEK_V32,
    "deepseek-ai-DeepSeek-V4": DEEPSEEK_V4,
    "deepseek-ai-DeepSeek-V4-Flash-0731": DEEPSEEK_V4,
    "inclusionai-ling-3.0-flash": LING3,
    "muse-glimmer": MUSE_GLIMMER,
    "openbmb-MiniCPM5-1B": MINICPM5,
    "poolside-Laguna-S-2.1": GLM47,
    "poolside-Laguna-XS-2.1": GLM46,
    "poolside-Laguna-XS.2": GLM46,
    "tencent-Hy3": HY3,
}
QUESTION = "What is going on?"
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
    },
    "required": ["name"],
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "is_on": {"type": "boolean"},
        "words": {"type": "array", "items": {"type": "string"}},
        "tree": {"$ref": "#/$defs/tree"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "size": {"enum": ["small", "big", 5]},
    },
    "$defs": {"tree": TREE},
}
TOOLS = (
    Tool("now", "the time", {"type": "object", "properties": {}}),
    Tool("Set-all_2", "does it", PARAMETERS),
)
TOOLBOX = Toolbox(TOOLS)
SCHEMA = enforceable(PARAMETERS, param="tools", is_strict=True)
STRICT = Toolbox([Tool("now"), Tool("Set-all_2", parameters=SCHEMA, strict=True)])

LETTERS = st.sampled_from(
    [*"ab \"\\/{}[]<>|:,&'\n\t1", "é", "😀", "</function>", "<tool_call>", "null"]
)
TEXTS = st.lists(LETTERS, max_size=12).map("".join)
NOTES = TEXTS.filter(lambda text: text not in ("null", "None"))
TREES: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.fixed_dictionaries(
        {"name": TEXTS},
        optional={"count": st.integers(), "kids": st.lists(TREES, min_size=1, max_size=2)},
    )
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXTS,
        "count": st.integers(-(2**60), 2**60),
        "share": st.floats(allow_nan=False, allow_infinity=False),
        "is_on": st.booleans(),
        "words": st.lists(TEXTS, min_size=1, max_size=3),
        "tree": TREES,
        "note": NOTES,
        "size": st.sampled_from(["small", "big", 5]),
    },
)
CALLS = st.lists(
    st.just(("now", {})) | st.tuples(st.just("Set-all_2"), ARGUMENTS), min_size=1, max_size=3
)


@cache
def template(name: str) -> Template:
    compiled = ChatTemplate({"default": read_sources()[name]}, SPECIAL_TOKENS, name)
    return Template(name, compiled, find_traits(compiled))


def write(name: str, calls: list[tuple[str, dict[str, Any]]]) -> str:
    """Return how the template writes calls, and what it writes behind them."""
    turn = Message(
        "assistant",
        tool_calls=tuple(
            ToolCall(f"{number:09}", name, json.dumps(arguments))
            for number, (name, arguments) in enumerate(calls)
        ),
    )
    messages = (Message("user", QUESTION), turn)
    whole = template(name).render(messages, *TOOLS, add_generation_prompt=False)
    answer = whole[whole.index(QUESTION) :]
    return answer[answer.index(FAMILIES[name].openings(TOOLBOX)[0]) :]


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=8, deadline=None)
@given(calls=CALLS)
def test_calls_that_a_template_writes_are_read_back(
    name: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    form = Writing(calls=(FAMILIES[name],))

    parts = fold(read_pieces(list(write(name, calls)), form, TOOLBOX))

    read = [part for part in parts if part[0] != "text"]
    assert [kind for kind, _ in read] == ["call", "arguments", "end"] * len(calls)
    found = zip(read[::3], read[1::3], strict=True)
    assert [(name, json.loads(arguments)) for (_, name), (_, arguments) in found] == calls


WHOLE: dict[str, Any] = {
    "text": "a b",
    "count": 5,
    "share": 0.5,
    "is_on": True,
    "words": ["a", "b"],
    "tree": {"name": "x", "kids": [{"name": "y"}]},
    "note": "n",
    "size": "big",
}


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"muse-glimmer"}))
def test_calls_that_a_template_writes_are_what_the_grammar_allows(name: str) -> None:
    is_python = name in ("ByteDance-Seed-OSS", "openbmb-MiniCPM5-1B")
    arguments = {key: WHOLE[key] for key in WHOLE if not is_python or key not in ("words", "tree")}
    text = write(name, [("now", {}), ("Set-all_2", arguments)])
    closing = FAMILIES[name].closings[-1]
    rules = Rules()
    grammar = rules.build(FAMILIES[name].grammar(rules, STRICT, is_single=False))

    assert judge(grammar, text[: text.rindex(closing) + len(closing)]) == "complete"
