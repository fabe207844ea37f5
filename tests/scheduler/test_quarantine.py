"""Exactly those are found guilty that make a step fail, in few trials."""

import math
import random
from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from appliance.scheduler.quarantine import Quarantine
from appliance.scheduler.sequence import Sequence


def _group(names: str) -> list[Sequence]:
    return [Sequence(name, 1) for name in names]


def _ids(group: Collection[Sequence]) -> str:
    return "".join(sequence.id for sequence in group)


def _pass_all(quarantine: Quarantine, group: list[Sequence]) -> None:
    for sequence in group:
        quarantine.passed(sequence.id)


def test_quarantine_is_inactive_until_a_step_fails() -> None:
    quarantine = Quarantine()

    assert not quarantine.is_active
    assert quarantine.is_trial_over
    assert quarantine.next_trial() == []
    assert quarantine.take_cleared() == []


def test_sequence_that_fails_alone_is_the_culprit() -> None:
    quarantine, group = Quarantine(), _group("a")

    assert quarantine.suspect(group) == group
    assert not quarantine.is_active


def test_failed_group_is_tried_in_halves() -> None:
    quarantine = Quarantine()

    assert quarantine.suspect(_group("abc")) == []

    first = quarantine.next_trial()
    assert _ids(first) == "ab"
    assert quarantine.take_cleared() == []
    _pass_all(quarantine, first)
    assert quarantine.take_cleared() == []
    assert _ids(quarantine.next_trial()) == "c"


def test_trial_lasts_until_all_have_passed() -> None:
    quarantine = Quarantine()
    quarantine.suspect(_group("abcd"))
    quarantine.next_trial()

    quarantine.passed("a")
    quarantine.passed("unknown")

    assert not quarantine.is_trial_over
    quarantine.passed("b")
    assert quarantine.is_trial_over


def test_one_that_passed_is_suspect_again_when_its_trial_fails_later() -> None:
    quarantine = Quarantine()
    quarantine.suspect(_group("abcd"))
    trial = quarantine.next_trial()
    quarantine.passed("a")

    assert quarantine.suspect(trial) == []

    assert _ids(quarantine.next_trial()) == "a"
    assert not quarantine.is_trial_over


def test_discarded_sequences_are_neither_awaited_nor_tried_nor_cleared() -> None:
    quarantine = Quarantine()
    quarantine.suspect(_group("abcdef"))
    first = quarantine.next_trial()
    quarantine.discard("a")
    _pass_all(quarantine, first[1:])
    assert quarantine.is_trial_over
    quarantine.discard("b")
    quarantine.discard("e")

    second = quarantine.next_trial()
    _pass_all(quarantine, second)

    assert _ids(second) == "df"
    assert quarantine.next_trial() == []
    assert _ids(quarantine.take_cleared()) == "cdf"
    assert not quarantine.is_active


def test_quarantine_ends_when_all_are_discarded() -> None:
    quarantine = Quarantine()
    quarantine.suspect(_group("ab"))

    quarantine.discard("a")
    quarantine.discard("b")

    assert not quarantine.is_active
    namesakes = _group("ab")
    quarantine.suspect(namesakes)
    assert _ids(quarantine.next_trial() + quarantine.next_trial()) == "ab"
    assert quarantine.next_trial() == []
    assert quarantine.take_cleared() == namesakes


def _judge(group: list[Sequence], guilty: set[str]) -> tuple[list[Sequence], list[Sequence], int]:
    """Run trials to the end; return the culprits, the cleared and the number of trials."""
    quarantine, trials = Quarantine(), 0
    culprits = quarantine.suspect(group)
    while trial := quarantine.next_trial():
        trials += 1
        if guilty & set(_ids(trial)):
            culprits += quarantine.suspect(trial)
        else:
            _pass_all(quarantine, trial)
        assert quarantine.is_trial_over
    return culprits, quarantine.take_cleared(), trials


_names = st.sets(st.characters(min_codepoint=0x4E00, max_codepoint=0x4E80), min_size=1)


@given(_names, st.data())
def test_quarantine_finds_exactly_the_culprits(names: set[str], data: st.DataObject) -> None:
    ordered = data.draw(st.permutations(sorted(names)))
    guilty = data.draw(st.sets(st.sampled_from(ordered), min_size=1))
    group = _group("".join(ordered))

    culprits, cleared, trials = _judge(group, guilty)

    assert sorted(_ids(culprits)) == sorted(guilty)
    assert cleared == [sequence for sequence in group if sequence.id not in guilty]
    assert trials <= 2 * len(guilty) * math.ceil(math.log2(len(group)))


def test_single_culprit_among_many_is_found_in_few_trials() -> None:
    names = "".join(chr(0x4E00 + number) for number in range(128))

    for guilty in random.Random(1).sample(names, 10):
        culprits, cleared, trials = _judge(_group(names), {guilty})

        assert _ids(culprits) == guilty
        assert len(cleared) == 127
        assert trials <= 14


@given(st.sets(st.integers(0, 15), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_quarantine_loses_nobody_when_some_leave(guilty: set[int], dice: random.Random) -> None:
    group = [Sequence(str(number), 1) for number in range(16)]
    quarantine, gone = Quarantine(), set[str]()
    culprits = quarantine.suspect(group)
    while trial := quarantine.next_trial():
        assert not gone & {sequence.id for sequence in trial}
        if dice.random() < 0.3:
            gone.add(leaver := dice.choice(group).id)
            quarantine.discard(leaver)
        left = [sequence for sequence in trial if sequence.id not in gone]
        if left and guilty & {int(sequence.id) for sequence in left}:
            culprits += quarantine.suspect(left)
        _pass_all(quarantine, left)
        assert quarantine.is_trial_over

    found = {sequence.id for sequence in culprits}
    cleared = [sequence.id for sequence in quarantine.take_cleared()]

    assert found | gone >= {str(number) for number in guilty}
    assert found <= {str(number) for number in guilty}
    assert cleared == [s.id for s in group if s.id not in found | gone]
