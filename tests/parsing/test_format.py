"""Answers are read as the manifest says, and else as the template shows."""

import pytest

from appliance.manifest.spec import ChatSpec
from appliance.parsing.format import AnswerFormat, choose_format
from tests.packages import sdist_models_folder

QWEN = (
    """{{ '<think>' }}{{ '</think>' }}<tool_call>\\n{"name": <name>, "arguments": {}}</tool_call>"""
)


@pytest.mark.parametrize(
    ("template", "reasoning", "tools"),
    [
        pytest.param("", "none", "none", id="none"),
        pytest.param(QWEN, "qwen3", "hermes", id="both"),
        pytest.param(
            '<tool_call>{\\"name\\": \\"', "none", "hermes", id="quotes in a Jinja string"
        ),
        pytest.param(QWEN + "<function=name>", "qwen3", "none", id="parameters between marks"),
        pytest.param(QWEN + "<arg_key>", "qwen3", "none", id="keys between marks"),
        pytest.param("<tool_call>{{ call }}</tool_call>", "none", "none", id="no JSON"),
    ],
)
def test_auto_is_what_the_template_shows(template: str, reasoning: str, tools: str) -> None:
    assert choose_format(ChatSpec(), template) == AnswerFormat(reasoning, tools)


def test_manifest_wins_over_the_template() -> None:
    named = ChatSpec(reasoning_parser="qwen3", tool_parser="hermes")
    nothing = ChatSpec(reasoning_parser="none", tool_parser="none")

    assert choose_format(named, "") == AnswerFormat("qwen3", "hermes")
    assert choose_format(nothing, QWEN) == AnswerFormat("none", "none")


@pytest.mark.parametrize(
    ("prompt", "is_open"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("What is <think>?<|im_end|>\n<|im_start|>assistant\n", False),
        ("", False),
    ],
)
def test_thought_is_open_only_at_the_prompts_end(prompt: str, is_open: bool) -> None:
    assert AnswerFormat("qwen3").opens_thought(prompt) == is_open
    assert not AnswerFormat("none").opens_thought(prompt)


@pytest.mark.registry
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen-Qwen3-0.6B", AnswerFormat("qwen3", "hermes")),
        ("Qwen-Qwen2.5-7B-Instruct", AnswerFormat("none", "hermes")),
        ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", AnswerFormat("none", "hermes")),
        ("ibm-granite-granite-4.0", AnswerFormat("none", "hermes")),
        ("Qwen3-Coder", AnswerFormat("none", "none")),
        ("Qwen3.5-4B", AnswerFormat("qwen3", "none")),
        ("GLM-4.6", AnswerFormat("qwen3", "none")),
        ("google-gemma-2-2b-it", AnswerFormat("none", "none")),
    ],
)
def test_format_of_a_real_template(name: str, expected: AnswerFormat) -> None:
    template = (sdist_models_folder() / "templates" / f"{name}.jinja").read_text()

    assert choose_format(ChatSpec(), template) == expected
