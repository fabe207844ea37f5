"""What the Berkeley Function Calling Leaderboard expects is read back in every syntax."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox
from tests.parsing.proof import bfcl
from tests.parsing.proof.call_set import CallSet
from tests.parsing.proof.family import Family, family, main_names
from tests.parsing.proof.reading import Heard, hear, meant

pytestmark = [pytest.mark.registry, pytest.mark.timeout(300)]


def writable(each: Family, wanted: CallSet) -> Iterator[CallSet]:
    """Yield the calls that a family can write: all at once, or one by one."""
    calls = [call for call in wanted.calls if each.reach.can_call(call[1])]
    if len(calls) > each.reach.most_calls:
        yield from (replace(wanted, calls=(call,)) for call in calls)
    elif calls:
        yield replace(wanted, calls=tuple(calls))


def read(each: Family, wanted: CallSet, text: str) -> Heard:
    begun = each.begun(wanted, text)
    return hear(AnswerParser(each.form, Toolbox(wanted.tools), begun=begun), [text])


@pytest.mark.parametrize("category", bfcl.CALLING)
@pytest.mark.parametrize("name", main_names())
def test_expected_calls_are_read_back(name: str, category: str) -> None:
    each = family(name)
    num_calls = num_read = 0
    for wanted in bfcl.read_call_sets(category):
        num_calls += len(wanted.calls)
        for part in writable(each, wanted):
            text = each.write(part)
            heard = read(each, part, text)
            num_read += len(heard.calls)

            assert heard.is_sound, text
            assert heard.meaning() == meant(part, sorts=each.reach.sorts_keys), text
    assert num_read > 0.98 * num_calls


@pytest.mark.parametrize("name", main_names())
def test_answer_in_prose_calls_nothing(name: str) -> None:
    each = family(name)
    for wanted in bfcl.read_irrelevant():
        heard = read(each, wanted, wanted.before)

        assert heard == Heard(texts=[wanted.before])
