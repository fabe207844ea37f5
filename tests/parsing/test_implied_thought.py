"""Some models think first without a mark, so that only what ends the thought tells it."""

import pytest

from appliance.chat.request import Tool
from appliance.parsing.format import THOUGHTS, AnswerFormat
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import Part, fold, read_pieces, splits

FORM = AnswerFormat("apriel", "apriel")
TAIL = "<|user|>\nWhat?\n<|end|>\n<|assistant|>\n"
OPENING, CLOSING, END = (
    "Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]",
)  # fmt: skip
CALL = '<tool_calls>[{"name": "look", "arguments": {"q": "x"}}]</tool_calls>'
TOOLBOX = Toolbox([Tool("look")])


@pytest.mark.parametrize("opening", ["", OPENING, f"\n{OPENING}"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (f"1. [Hm]\n2. So\n{CLOSING}\nYes.{END}",
         [("thought", "1. [Hm]\n2. So"), ("text", "Yes.")]),
        (f"Hm.{CLOSING}Yes", [("thought", "Hm."), ("text", "Yes")]),
        (f"{CLOSING}\nYes. {CLOSING}", [("text", f"Yes. {CLOSING}")]),
        (f"Hm.\n{CLOSING}\n{CALL}\n{END}",
         [("thought", "Hm."), ("call", "look"), ("arguments", '{"q": "x"}'), ("end", "sound")]),
        (f"I may write {CALL}", [("thought", f"I may write {CALL}")]),
        ("Yes. [BEGIN", [("thought", "Yes. [BEGIN")]),
        ("", []),
    ],
)  # fmt: skip
def test_all_before_the_closing_is_a_thought(
    opening: str, answer: str, expected: list[Part]
) -> None:
    begun = FORM.begun(TAIL)

    for pieces in splits(opening + answer):
        assert fold(read_pieces(pieces, FORM, TOOLBOX, begun=begun)) == expected


@pytest.mark.parametrize(
    ("tail", "begun"),
    [
        (TAIL, OPENING),
        ("", OPENING),
        (TAIL + OPENING, OPENING),
        (f"{TAIL}{OPENING}{CLOSING}\n", ""),
        (f"{TAIL}<tool_calls>", "<tool_calls>"),
    ],
)
def test_any_prompt_has_begun_such_a_thought_but_for_one_that_says_how_it_goes_on(
    tail: str, begun: str
) -> None:
    assert FORM.begun(tail) == begun


@pytest.mark.parametrize("name", [name for name in THOUGHTS if name not in ("none", "apriel")])
def test_others_are_begun_by_their_opening_only(name: str) -> None:
    assert AnswerFormat(name).begun(TAIL) == ""
