"""What a template writes when an assistant answers is taken down as it stands."""

import pytest

from appliance.chat.probe import find_traits
from appliance.chat.sample import answer_text
from appliance.chat.template import ChatTemplate
from appliance.chat.traits import Samples

THINKING = (
    "{% for m in messages %}[{{ m.role }}]{% if m.thinking %}<think>{{ m.thinking }}</think>"
    "{% endif %}{{ m.content }}{% for c in m.tool_calls or () %}"
    "<call>{{ c.function.arguments | tojson }}</call>{% endfor %}.{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{{ '<think>' if enable_thinking }}{% endif %}"
)


def samples(source: str) -> Samples:
    return find_traits(ChatTemplate({"default": source}, {}, "test")).samples


@pytest.mark.parametrize(
    ("prompt", "whole", "answer"),
    [
        ("[user]Hi[assistant]", "[user]Hi[assistant]Yes.", "Yes."),
        ("[user]Hi<bot><think>", "[user]Hi<bot></think>Yes.", "</think>Yes."),
        ("[user]Hi<bot><|think|>", "[user]Hi<bot><|tool|>", "<|tool|>"),
        ("[user]Hi<bot>\n", "[user]Hi<bot>", ""),
    ],
)
def test_answer_is_what_stands_behind_the_prompt(prompt: str, whole: str, answer: str) -> None:
    assert answer_text(prompt, whole) == answer


def test_samples_show_thought_calls_and_how_prompts_end() -> None:
    found = samples(THINKING)

    assert found.thinking_tail == "[user]askmark.[assistant]<think>"
    assert found.plain_tail == "[user]askmark.[assistant]"
    assert found.thought == "thoughtmark</think>saymark."
    assert found.call.startswith('<call>{"placekey": "in <b>", "daykey": -3, "listkey": {')
    assert found.calls.endswith('</call><call>{"placekey": "next"}</call>.')


def test_template_that_shows_neither_has_no_samples_of_it() -> None:
    found = samples("{% for m in messages %}{{ m.content }}{% endfor %}")

    assert (found.thought, found.call, found.calls) == ("", "", "")


def test_endless_turns_are_cut() -> None:
    source = "{% for m in messages %}{{ m.content }}{% endfor %}{{ 'x<think>' * 1000 }}"

    assert len(samples(source).thinking_tail) == 256
