"""What goes into the outbox comes out, however the two threads interleave."""

from hypothesis import given
from hypothesis import strategies as st

from appliance.engine.outbox import Outbox
from appliance.engine.wire import Accepted, End, Failed, FromWorker, Row, Step, WireError


class Bell:
    """Counts how often it was rung."""

    def __init__(self) -> None:
        self.count = 0

    def ring(self) -> None:
        self.count += 1


def _outbox(wake: Bell | None = None, room: Bell | None = None) -> Outbox:
    return Outbox((wake or Bell()).ring, (room or Bell()).ring)


def _step(number: int, rows: list[Row], seconds: dict[str, float] | None = None) -> Step:
    return Step("m", number, seconds or {}, len(rows), 0, 0, rows)


def _row(request_id: str, number: int, end: End | None = None) -> Row:
    return Row(request_id, f"{number} ", 1, [number], end, lengths=[len(f"{number} ")])


# Each action is how many tokens an id gets in one step, ending or not, or None: the reader takes.
_Actions = list[dict[str, bool] | None]
_actions = st.lists(
    st.none() | st.dictionaries(st.sampled_from("abcd"), st.booleans(), max_size=4), max_size=40
)


def _run(actions: _Actions) -> tuple[list[FromWorker], dict[str, list[int]], set[str]]:
    outbox, sent = _outbox(), []
    given_ids: dict[str, list[int]] = {}
    ended: set[str] = set()
    for number, action in enumerate(actions):
        if action is None:
            sent += outbox.take()
            continue
        rows = []
        for request_id, is_last in action.items():
            if request_id in ended:
                continue
            if request_id not in given_ids:
                outbox.post(Accepted("m", request_id, 1))
            given_ids.setdefault(request_id, []).append(number)
            end = End("stop", len(given_ids[request_id])) if is_last else None
            ended |= {request_id} if is_last else set()
            rows.append(_row(request_id, number, end))
        outbox.publish(_step(number, rows))
    return sent + outbox.take(), given_ids, ended


@given(_actions)
def test_outbox_loses_nothing_and_ends_once(actions: _Actions) -> None:
    frames, given_ids, ended = _run(actions)

    rows = [row for frame in frames if isinstance(frame, Step) for row in frame.rows]
    for request_id, ids in given_ids.items():
        own = [row for row in rows if row.id == request_id]
        assert [token for row in own for token in row.ids] == ids
        assert "".join(row.text for row in own) == "".join(f"{number} " for number in ids)
        assert sum(row.tokens for row in own) == len(ids)
        lengths = [size for row in own for size in row.lengths]
        assert lengths == [len(f"{number} ") for number in ids]
        assert [row.end is not None for row in own].count(True) == (request_id in ended)
        assert all(row.end is None for row in own[:-1])


@given(_actions)
def test_outbox_accepts_before_the_first_row_and_has_one_row_for_each_id(
    actions: _Actions,
) -> None:
    frames, _, _ = _run(actions)

    accepted: set[str] = set()
    for frame in frames:
        if isinstance(frame, Accepted):
            accepted.add(frame.id)
        elif isinstance(frame, Step):
            ids = [row.id for row in frame.rows]
            assert len(ids) == len(set(ids))
            assert accepted.issuperset(ids)


def test_outbox_merges_steps_that_wait() -> None:
    outbox = _outbox()

    outbox.publish(_step(1, [_row("a", 1)], {"prefill": 1.0, "decode": 0.5}))
    outbox.publish(_step(2, [_row("a", 2), _row("b", 2)], {"decode": 0.25}))

    (step,) = outbox.take()
    assert isinstance(step, Step)
    assert (step.number, step.batch_size) == (2, 2)
    assert step.seconds == {"prefill": 1.0, "decode": 0.75}
    assert step.rows == [
        Row("a", "1 2 ", 2, [1, 2], lengths=[2, 2]),
        Row("b", "2 ", 1, [2], lengths=[2]),
    ]


def test_outbox_sends_its_last_frame_last_and_once() -> None:
    outbox = _outbox()
    failed = Failed("m", WireError("step_failed", "broken"))
    outbox.publish(_step(1, []))
    outbox.close(failed)

    outbox.post(Accepted("m", "a", 1))
    frames = outbox.take()

    assert frames[-1] is failed
    assert len(frames) == 3
    assert outbox.take() == []


def test_outbox_tells_a_waiting_producer_when_there_is_room() -> None:
    wake, room = Bell(), Bell()
    outbox = _outbox(wake, room)
    outbox.publish(_step(1, []))
    assert not outbox.has_room()

    outbox.take()
    outbox.take()

    assert (wake.count, room.count) == (1, 1)
    assert outbox.has_room()
