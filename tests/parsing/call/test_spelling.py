"""What a family writes round the parts of a call becomes marks and texts."""

import pytest

from appliance.parsing.call.spelling import Id, spell
from appliance.parsing.grammar.rules import Rules
from tests.parsing.grammar.trial import judge


@pytest.mark.parametrize(
    ("parts", "text", "marks"),
    [
        ((), "", ()),
        (("",), "", ()),
        (("call:", "f", " "), "call:f ", ()),
        (("\n<a>\n", "\n", "b"), "\n<a>\n\nb", ("<a>",)),
        (("[A]", "f", " [B]"), "[A]f [B]", ("[A]", "[B]")),
        ((" to=", ")]"), " to=)]", (")]",)),
        (("a", Id("[0-9]{2}"), ' ">"'), 'a12 ">"', ()),
        (("<a>", Id("<[a-z]>"), "b"), "<a><x>b", ("<a>",)),
    ],
)
def test_parts_in_a_row_are_texts_but_for_marks(
    parts: tuple[str, ...], text: str, marks: tuple[str, ...]
) -> None:
    rules = Rules()
    grammar = rules.build(spell(rules, *parts) or '""')

    assert judge(grammar, text) == "complete"
    assert grammar.marks == marks
