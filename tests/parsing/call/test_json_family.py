"""Each family's calls are read as its own template writes them, and bound to be written so."""

import json
import re
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from appliance.chat.grammar import Grammar
from appliance.chat.probe import find_traits
from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.template import ChatTemplate
from appliance.parsing.call import json_family
from appliance.parsing.call.json_body import JsonBody
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.toolbox import Toolbox
from tests.chat.gallery import SPECIAL_TOKENS, Template, read_sources
from tests.examples import examples
from tests.parsing.answer_reading import fold, read_pieces
from tests.parsing.call.writing import Writing, read_calls
from tests.parsing.grammar.trial import judge, random_text

TOOLBOX = Toolbox(
    [
        Tool("look", "Look", {"type": "object", "properties": {"city": {"type": "string"}}}),
        Tool("now", "Now", {"type": "object", "properties": {}}),
    ]
)
DECLARED = {name: each for name, each in vars(json_family).items() if isinstance(each, JsonBody)}

TEMPLATES = {
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": json_family.HERMES,
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": json_family.HERMES,
    "Qwen-Qwen2.5-7B-Instruct": json_family.HERMES,
    "Qwen-Qwen3-0.6B": json_family.HERMES,
    "Qwen-QwQ-32B": json_family.HERMES,
    "Bielik-11B-v3.0-Instruct": json_family.HERMES,
    "MiMo-VL": json_family.HERMES,
    "Reka-Edge": json_family.HERMES,
    "ibm-granite-granite-4.0": json_family.HERMES,
    "ibm-granite-granite-4.1": json_family.HERMES,
    "NVIDIA-Nemotron-Nano-v2": json_family.NEMOTRON,
    "Apriel-1.6-15b-Thinker-fixed": json_family.TOOL_CALLS,
    "unsloth-Apriel-1.5": json_family.TOOL_CALLS,
    "MiniMax-M1": json_family.MINIMAX_M1,
    "mistralai-Mistral-Nemo-Instruct-2407": json_family.MISTRAL,
    "meta-llama-Llama-3.1-8B-Instruct": json_family.LLAMA,
    "meta-llama-Llama-3.2-3B-Instruct": json_family.LLAMA,
    "meta-llama-Llama-3.3-70B-Instruct": json_family.LLAMA,
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": json_family.COHERE,
    "Cohere2MoE": json_family.COHERE,
    "CohereForAI-c4ai-command-r-plus-tool_use": json_family.COMMAND_R,
    "fireworks-ai-llama-3-firefunction-v2": json_family.FUNCTOOLS,
    "Apertus-8B-Instruct": json_family.APERTUS,
    "GigaChat3.1-10B-A1.8B": json_family.GIGACHAT,
    "GigaChat3-10B-A1.8B": json_family.GIGACHAT_ROLE,
}
SPLIT_TURNS = re.compile("Llama-3|GigaChat")
"""Templates that write each call as a turn of its own."""
LINE_ENDS = re.compile(r"[\x85\u2028\u2029]")
REFORMATTED = {
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "Reka-Edge",
}
"""Templates with white space of their own in the arguments, or none between calls."""

Calls = list[tuple[str, dict[str, Any]]]


@cache
def template(name: str) -> Template:
    compiled = ChatTemplate({"default": read_sources()[name]}, SPECIAL_TOKENS, name)
    return Template(name, compiled, find_traits(compiled))


def render(name: str, calls: Calls) -> str:
    """Return what the template writes from the first call's first mark on."""
    made = tuple(
        ToolCall(f"abcdefg{number:02}", called, json.dumps(arguments))
        for number, (called, arguments) in enumerate(calls)
    )
    messages = (Message("user", "askmark"), Message("assistant", tool_calls=made))
    whole = template(name).render(messages, *TOOLBOX.tools, add_generation_prompt=False)
    answer = whole[whole.rindex("askmark") :]
    syntax = TEMPLATES[name]
    starts = [answer.find(mark) for mark in (*syntax.marks, *syntax.bare)]
    return answer[min(start for start in starts if start >= 0) :]


def calls_of(text: str, syntax: JsonBody) -> Calls:
    calls: Calls = []
    for kind, part in fold(read_pieces([text], Writing(calls=(syntax,)), TOOLBOX)):
        if kind == "call":
            calls.append((part, {}))
        elif kind == "arguments":
            calls[-1] = (calls[-1][0], msgspec.json.decode(part))
        assert kind != "end" or part == "sound"
    return calls


def grammar_of(syntax: JsonBody, *, is_single: bool = False) -> Grammar:
    rules = Rules()
    return rules.build(syntax.grammar(rules, TOOLBOX, is_single=is_single))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9)
    | st.sampled_from(["</tool_call>", '{"name": "now"}', "a\nb", "\\\"", "<|tools_suffix|>"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)  # fmt: skip
ARGUMENTS = st.dictionaries(st.sampled_from(["city", "name", "a b", "é", "arguments"]), VALUES)
CALLS = st.lists(st.tuples(st.sampled_from(["look", "now"]), ARGUMENTS), min_size=1, max_size=3)


@pytest.mark.registry
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TEMPLATES)
@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(CALLS)
def test_what_the_template_writes_is_read_back(name: str, calls: Calls) -> None:
    calls = calls[:1] if SPLIT_TURNS.search(name) else calls
    # The template indents what comes behind anything that Python takes for a line's end.
    whole = json.dumps(calls, ensure_ascii=False)
    assume("command-r-plus" not in name or not LINE_ENDS.search(whole))

    assert calls_of(render(name, calls), TEMPLATES[name]) == calls


@pytest.mark.registry
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name in TEMPLATES if name not in REFORMATTED])
def test_what_the_template_writes_is_what_the_grammar_allows(name: str) -> None:
    calls: Calls = [("look", {"city": "Zürich <1>"}), ("now", {})]
    calls = calls[:1] if SPLIT_TURNS.search(name) else calls

    text = render(name, calls)

    whole = grammar_of(TEMPLATES[name])
    assert any(judge(whole, text[:end]) == "complete" for end in range(len(text) + 1))


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("seed", range(examples(3)))
def test_what_the_grammar_allows_is_read_as_sound_calls(name: str, seed: int) -> None:
    text = random_text(grammar_of(DECLARED[name]), seed)

    if text is not None:
        parts = read_calls(text, DECLARED[name], toolbox=TOOLBOX)
        assert {kind for kind, _ in parts} == {"call", "arguments", "end"}
        assert ("end", "broken") not in parts


@pytest.mark.parametrize("name", DECLARED)
def test_single_call_is_all_that_the_grammar_allows(name: str) -> None:
    spelling = DECLARED[name].spelling
    made_up = "7" if re.fullmatch(spelling.id_pattern, "7") else "123456789"
    values = {"$name": '"now"', "$arguments": "{}", "$id": made_up}
    item = re.sub(r"\$\w+", lambda found: values[found[0]], spelling.item)
    one = f"{spelling.before}{item}{spelling.after}"
    two = f"{spelling.before}{item}{spelling.between}{item}{spelling.after}"

    assert judge(grammar_of(DECLARED[name], is_single=True), one) == "complete"
    assert judge(grammar_of(DECLARED[name], is_single=True), two) != "complete"
    assert judge(grammar_of(DECLARED[name]), one) == "complete"
    assert judge(grammar_of(DECLARED[name]), two) == "complete"


@pytest.mark.parametrize("name", DECLARED)
def test_grammar_names_only_declared_functions(name: str) -> None:
    spelling = DECLARED[name].spelling
    item = spelling.item.replace("$name", '"rm"').replace("$arguments", "{}").replace("$id", "1")

    assert judge(grammar_of(DECLARED[name]), spelling.before + item) == "refused"
