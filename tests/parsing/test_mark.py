"""Marks are found where they are whole, and their starts only where more text may come."""

import pytest

from appliance.parsing.call.json_family import MISTRAL
from appliance.parsing.call.pythonic import GEMMA3, PYTHONIC
from appliance.parsing.mark import Found, MarkFinder
from tests.parsing.call.writing import read_calls, sound

FINDER = MarkFinder(("[", "[TOOL_CALLS]", "</a>"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x", None),
        ("x[TOOL_CALLS]y", Found("[TOOL_CALLS]", 1, is_whole=True)),
        ("x[TOOL_CALLS]", Found("[TOOL_CALLS]", 1, is_whole=True)),
        ("x[TOOLS", Found("[", 1, is_whole=True)),
        ("x[TOOL", Found("[TOOL", 1, is_whole=False)),
        ("x[", Found("[", 1, is_whole=False)),
        ("x</b></", Found("</", 5, is_whole=False)),
    ],
)
def test_longest_mark_is_found_and_a_start_that_may_become_one(
    text: str, found: Found | None
) -> None:
    assert FINDER.find(text, 0, is_last=False) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x[TOOL", Found("[", 1, is_whole=True)),
        ("x[", Found("[", 1, is_whole=True)),
        ("x</", None),
    ],
)
def test_only_whole_marks_are_found_where_nothing_follows(text: str, found: Found | None) -> None:
    assert FINDER.find(text, 0, is_last=True) == found


def test_mark_of_one_character_has_no_start() -> None:
    assert MarkFinder(("{",)).find("xy", 0, is_last=False) is None


def test_nothing_is_found_without_marks() -> None:
    assert MarkFinder(()).find("<a>", 0, is_last=False) is None
    assert MarkFinder(()).find("<a>", 0, is_last=True) is None


@pytest.mark.parametrize(
    "text",
    [
        '[TOOL_CALLS][{"name": "find", "arguments": {"city":"B"}}]',
        '[find(city="B")]',
        '```tool_code\nfind(city="B")\n```',
    ],
)
def test_call_whose_mark_begins_like_another_is_read_however_it_is_cut(text: str) -> None:
    assert read_calls(text, PYTHONIC, GEMMA3, MISTRAL) == sound("find", city="B")


@pytest.mark.parametrize("text", ["[", "[TOOL", "``", "[TOOL_CALLS", "[ T"])
def test_start_of_a_mark_that_ends_the_answer_is_text(text: str) -> None:
    assert read_calls(text, PYTHONIC, GEMMA3, MISTRAL) == [("text", text)]
