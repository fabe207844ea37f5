"""Answers are read as the manifest says, and else as the template writes them itself."""

import pytest
from msgspec.structs import replace

from appliance.chat.probe import find_traits
from appliance.chat.template import ChatTemplate
from appliance.chat.traits import Samples, Traits
from appliance.manifest.spec import ChatSpec
from appliance.parsing.detect import choose_format
from appliance.parsing.format import AnswerFormat
from tests.chat.gallery import Template, read_gallery
from tests.parsing.proof.detection import print_detected
from tests.parsing.proof.family import DETECTED

AUTO = ChatSpec()
CALL = '{"name": "lookmark", "arguments": {"placekey": "in <b>", "daykey": -3}}'
TOOLS = "{{ tools | tojson if tools else '' }}"
TURNS = (
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or () %}"
    "CALL{% endfor %}\n{% endfor %}{{ 'assistant:' if add_generation_prompt }}"
)


def writing(call: str) -> Traits:
    source = TOOLS + TURNS.replace("CALL", call)
    return find_traits(ChatTemplate({"default": source}, {}, "test"))


def test_manifest_wins_over_the_template() -> None:
    traits = Traits(samples=Samples(call=f"<tool_call>{CALL}</tool_call>"))
    named = ChatSpec(reasoning_parser="mistral", tool_parser="glm47")
    nothing = ChatSpec(reasoning_parser="none", tool_parser="none")
    half = ChatSpec(reasoning_parser="qwen3")

    assert choose_format(named, traits) == AnswerFormat("mistral", "glm47")
    assert choose_format(nothing, traits) == AnswerFormat("none", "none")
    assert choose_format(half, traits) == AnswerFormat("qwen3", "hermes")


@pytest.mark.parametrize(
    ("call", "tools"),
    [
        ("<tool_call>{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}"
         "</tool_call>", "hermes"),
        ("[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}", "mistral"),
        ("<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments.items() %}<arg_key>"
         "{{ k }}</arg_key><arg_value>{{ v if v is string else v | tojson }}</arg_value>"
         "{% endfor %}</tool_call>", "glm47"),
        ("{{ c.function.name }}!{{ c.function.arguments | tojson }}", "none"),
    ],
)  # fmt: skip
def test_calls_are_those_that_the_template_writes(call: str, tools: str) -> None:
    assert choose_format(AUTO, writing(call)).tools == tools


@pytest.mark.parametrize(
    ("samples", "reasoning"),
    [
        (Samples(thought="[THINK]thoughtmark[/THINK]saymark"), "mistral"),
        (Samples(thinking_tail="<think>\n", thought="thoughtmark\n</think>saymark"), "qwen3"),
        (Samples(thinking_tail="assistant\n<think>\n"), "qwen3"),
        (Samples(plain_tail="<|channel>thought\n<channel|>"), "gemma4"),
        (Samples(), "none"),
    ],
)
def test_thoughts_are_those_that_the_template_writes(samples: Samples, reasoning: str) -> None:
    assert choose_format(AUTO, Traits(samples=samples)).reasoning == reasoning


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("", AnswerFormat()),
        ("Answer in <think> and </think>.", AnswerFormat("qwen3")),
        ("Answer: [BEGIN FINAL RESPONSE] ... [END FINAL RESPONSE].", AnswerFormat("apriel")),
        ("Here are my reasoning steps:", AnswerFormat()),
        ("List of tools: [", AnswerFormat(tools="lfm2")),
        ("Call with <|tool_call|>", AnswerFormat(tools="granite")),
        ("<tool_call><think></think><arg_key>", AnswerFormat("glm", "glm47")),
    ],
)
def test_text_tells_where_the_template_writes_nothing(
    template: str, expected: AnswerFormat
) -> None:
    assert choose_format(AUTO, Traits(template=template)) == expected


def test_template_that_writes_broken_calls_has_none() -> None:
    call = '<tool_call>{"name": "lookmark", "arguments": {"placekey": in <b>}}</tool_call>'

    assert choose_format(AUTO, Traits(samples=Samples(call=call))).tools == "none"


@pytest.fixture(scope="module")
def gallery() -> list[Template]:
    return read_gallery()


@pytest.mark.registry
@pytest.mark.timeout(120)
def test_every_real_template_has_the_format_that_the_golden_file_says(
    gallery: list[Template],
) -> None:
    # What differs: `python -m tests.parsing.proof.detection` writes the file anew.
    assert print_detected(gallery) == DETECTED.read_text()


@pytest.mark.registry
@pytest.mark.timeout(120)
def test_untried_model_has_calls_if_its_template_has(gallery: list[Template]) -> None:
    for each in gallery:
        tried = choose_format(AUTO, each.traits)
        untried = choose_format(AUTO, replace(each.traits, samples=Samples()))

        assert (untried.tools == "none") == (tried.tools == "none"), each.name
