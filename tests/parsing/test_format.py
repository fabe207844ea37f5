"""What a prompt has begun is known from how it ends."""

from typing import get_args

import pytest

from appliance.manifest.spec.model import ReasoningParser, ToolParser
from appliance.parsing.format import CALLS, THOUGHTS, AnswerFormat


@pytest.mark.parametrize(
    ("prompt", "begun"),
    [
        ("<|im_start|>assistant\n<think>\n", "<think>"),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", ""),
        ("What is <think>?<|im_end|>\n<|im_start|>assistant\n", ""),
        ("", ""),
    ],
)
def test_thought_is_begun_only_at_the_prompts_end(prompt: str, begun: str) -> None:
    assert AnswerFormat("qwen3").begun(prompt) == begun
    assert AnswerFormat("none").begun(prompt) == ""


def test_header_may_be_begun_in_the_prompt() -> None:
    harmony = AnswerFormat("harmony", "harmony")

    assert harmony.begun("<|end|><|start|>assistant") == "<|start|>assistant"
    assert AnswerFormat(tools="functionary").begun("assistant\n\n>>>") == ">>>"


def test_manifest_names_every_format() -> None:
    assert set(get_args(ToolParser)) == {"auto", *CALLS}
    assert set(get_args(ReasoningParser)) == {"auto", *THOUGHTS}


def test_marks_are_those_of_thoughts_calls_and_grammar() -> None:
    assert {"<think>", "</think>", "<response>", "</response>", "<|tool_call|>"} <= set(
        AnswerFormat("granite", "granite").marks()
    )
    assert AnswerFormat().marks() == ()
