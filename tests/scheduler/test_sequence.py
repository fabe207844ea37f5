"""A sequence is itself, whatever it holds."""

from appliance.scheduler.sequence import Sequence, SequenceState


def test_sequence_equals_only_itself() -> None:
    one, same = Sequence("a", 3), Sequence("a", 3)

    assert one == one  # noqa: PLR0124
    assert one != same
    assert len({one, same}) == 2


def test_new_sequence_waits_and_has_made_nothing() -> None:
    one, other = Sequence("a", 3), Sequence("b", 3)
    one.produced.append(7)

    assert other.state is SequenceState.WAITING
    assert other.produced == []
    assert other.num_produced == 0
