"""A budget of thought is for what is read as one, and leaves alone whatever else there is."""

import pytest

from appliance.parsing.format import AnswerFormat
from tests.constraints.vocabularies import EOS
from tests.constraints.walk import FORMATS, Answer, Vocabulary, Walk, letters, parts, whole

PROSE = """\
A <table> and <thead>, <t and <|x|> [T HEAD.

<tr><th>Here are my</th> a < b, a [1] b
Say <think> or [THINK] or so.
"""
MINIMAX = AnswerFormat("minimax", "minimax_m2")
CODER = AnswerFormat("qwen3", "qwen3_coder")
CODER_CALL = """\
<tool_call>
<function=f>
<parameter=a>

<think>
</parameter>
</function>
</tool_call>"""
MINIMAX_CALL = """
<minimax:tool_call>
<invoke name="f">
<parameter name="a">ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ</parameter>
</invoke>
</minimax:tool_call>"""


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.reasoning)
@pytest.mark.parametrize("vocabulary", [whole, parts, letters])
@pytest.mark.parametrize("budget", [0, 9])
def test_text_without_thoughts_is_free(
    form: AnswerFormat, vocabulary: Vocabulary, budget: int
) -> None:
    walk = Walk(form, vocabulary, budget, _behind_thought(form))

    assert all(walk.write(PROSE))

    assert walk.read().num_thought == 0


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.reasoning)
def test_next_token_is_waited_for_only_where_a_thought_may_begin(form: AnswerFormat) -> None:
    walk = Walk(form, parts, 0, _behind_thought(form))
    could_wait = []

    for token in walk.vocabulary.spell("One two three.\nFour five six."):
        could_wait.append(walk.guide.can_wait)
        walk.take(token)

    assert could_wait.count(False) <= len("\n\n")


def test_budget_is_for_all_thoughts_of_an_answer_together() -> None:
    walk = Walk(CODER, whole, 4)

    walk.write("<think>ZZ</think>Hi\n<think>Z")

    assert walk.forced() == "</think>"
    walk.write("a")
    assert walk.read() == Answer("Hi\na", "ZZZ", "", 3)


def test_mark_in_an_argument_is_no_thought_and_one_behind_the_call_is() -> None:
    walk = Walk(CODER, letters, 0)

    assert all(walk.write(CODER_CALL))
    walk.write("<think>")

    assert walk.forced() == "</think>"
    assert walk.read() == Answer("", "", '{"a":"\\n<think>"}', 0)


def test_call_in_a_thought_is_no_thought() -> None:
    walk = Walk(MINIMAX, letters, 40 + len("<minimax:tool_call>"))
    walk.write("<think>Z")

    assert all(walk.write(MINIMAX_CALL))

    assert walk.read() == Answer("", "Z", f'{{"a":"{40 * "Z"}"}}', 1)
    assert not walk.counter.is_open


def test_header_that_the_family_does_not_write_so_opens_a_thought() -> None:
    walk = Walk(AnswerFormat("harmony", "harmony"), parts, 0)

    walk.write("<|channel|>analysis to=nobody <|message|>")

    assert walk.forced() == "<|end|>"
    assert walk.read() == Answer("", "", "", 0)


def test_thought_in_what_was_held_for_a_call_is_ended_too() -> None:
    walk = Walk(AnswerFormat("qwen3", "functools"), letters, 0)

    walk.write('functools {"name":\n<think>')

    assert walk.forced() == "</think>"
    walk.write("no call")
    assert walk.read() == Answer('functools {"name":\nno call', "", "", 0)


def test_budget_outlasts_tokens_that_are_no_text() -> None:
    walk = Walk(CODER, whole, 0)
    walk.write("Hi\n")

    walk.take(_im_start(walk))
    walk.write("<think>")

    assert walk.forced() == "</think>"


def test_end_token_ends_an_answer_wherever_it_comes() -> None:
    walk = Walk(CODER, whole, 0)

    walk.write("<think>")

    assert walk.guide.take(EOS)


def _behind_thought(form: AnswerFormat) -> str:
    assert form.thought is not None
    return form.thought.closing


def _im_start(walk: Walk) -> int:
    return walk.tokenizer.added_tokens["<|im_start|>"]
