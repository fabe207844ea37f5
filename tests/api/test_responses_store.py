"""What is kept of answers: by key, within bounds, through restarts and edits."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal, cast

import pytest

from appliance.api.openai.responses.history import HistoryReader
from appliance.api.openai.responses.rows import ResponseRows, StoredResponse
from appliance.api.openai.responses.store import ResponseStore
from appliance.errors import InvalidRequest, ResponseNotFound, StateFolderInUse, StoreFailed
from appliance.manifest.spec import ResponsesSpec
from tests.api.responses import decode_body

MOST = 10**6


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Kind = Literal["memory", "sqlite"]


@pytest.fixture(params=["memory", "sqlite"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return cast(Kind, request.param)


@pytest.fixture
def rows(kind: Kind, tmp_path: Path, clock: Clock) -> Iterator[ResponseRows]:
    with closing(ResponseRows(tmp_path, clock)) as made:
        made.use(ResponsesSpec(kind=kind))
        yield made


def stored(
    name: str, *, key: str = "a", previous: str | None = None, size: int = 2
) -> StoredResponse:
    return StoredResponse(name, key, previous, "completed", b"{}", b" " * size)


def names(rows: ResponseRows, *wanted: str) -> list[str]:
    """Return which of the answers are there."""
    there = []
    for name in wanted:
        try:
            there.append(rows.get("a", name).id)
        except ResponseNotFound:
            continue
    return there


def test_answer_is_its_keys_alone(rows: ResponseRows) -> None:
    rows.put(stored("r1"))

    assert rows.get("a", "r1") == stored("r1")
    with pytest.raises(ResponseNotFound):
        rows.get("b", "r1")
    with pytest.raises(ResponseNotFound):
        rows.delete("b", "r1")
    rows.delete("a", "r1")
    with pytest.raises(ResponseNotFound):
        rows.delete("a", "r1")


def test_oldest_of_a_key_make_way(rows: ResponseRows, clock: Clock, kind: Kind) -> None:
    rows.use(ResponsesSpec(store=2, kind=kind))
    rows.put(stored("other", key="b"))

    for name in ("r1", "r2", "r3"):
        clock.now += 1
        rows.put(stored(name))

    assert names(rows, "r1", "r2", "r3") == ["r2", "r3"]
    assert rows.get("b", "other")


def test_room_is_bounded(rows: ResponseRows, clock: Clock, kind: Kind) -> None:
    rows.use(ResponsesSpec(max_bytes=100, kind=kind))

    for name in ("r1", "r2", "r3"):
        clock.now += 1
        rows.put(stored(name, size=40))

    assert names(rows, "r1", "r2", "r3") == ["r2", "r3"]


def test_answer_without_room_sends_no_other_away(rows: ResponseRows, kind: Kind) -> None:
    rows.use(ResponsesSpec(max_bytes=100, kind=kind))
    rows.put(stored("r1"))

    with pytest.raises(StoreFailed):
        rows.put(stored("r2", size=100))

    assert names(rows, "r1", "r2") == ["r1"]


def test_answers_grow_old_unless_they_are_built_on(
    rows: ResponseRows, clock: Clock, kind: Kind
) -> None:
    rows.use(ResponsesSpec(max_age=10.0, kind=kind))
    rows.put(stored("r1"))
    rows.put(stored("r2", previous="r1"))
    rows.put(stored("r3"))

    clock.now += 8
    rows.chain("a", "r2", MOST)
    clock.now += 8

    assert names(rows, "r1", "r2", "r3") == ["r1", "r2"]


def test_chain_is_whole_or_not_there(rows: ResponseRows) -> None:
    for name, previous in (("r1", None), ("r2", "r1"), ("r3", "r2")):
        rows.put(stored(name, previous=previous))

    chain = rows.chain("a", "r3", MOST)

    assert [each.id for each in chain] == ["r1", "r2", "r3"]
    with pytest.raises(InvalidRequest):
        rows.chain("a", "r3", 11)
    rows.delete("a", "r1")
    with pytest.raises(ResponseNotFound):
        rows.chain("a", "r3", MOST)


def test_renewed_answer_does_not_come_back_from_the_dead(rows: ResponseRows) -> None:
    rows.put(stored("r1"))
    rows.delete("a", "r1")

    rows.renew(stored("r1"))

    assert names(rows, "r1") == []


def test_file_is_private_and_survives(tmp_path: Path) -> None:
    with closing(ResponseRows(tmp_path)) as rows:
        rows.use(ResponsesSpec())
        rows.put(stored("r1"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}

    assert modes and set(modes.values()) == {0o600}
    with closing(ResponseRows(tmp_path)) as again:
        again.use(ResponsesSpec())
        assert again.get("a", "r1") == stored("r1")


def test_edit_of_the_bounds_keeps_the_rest(rows: ResponseRows, clock: Clock, kind: Kind) -> None:
    for name in ("r1", "r2"):
        clock.now += 1
        rows.put(stored(name))

    rows.use(ResponsesSpec(store=1, kind=kind))

    assert names(rows, "r1", "r2") == ["r2"]


def test_place_that_is_left_is_as_it_was_when_come_back_to(tmp_path: Path) -> None:
    with closing(ResponseRows(tmp_path)) as rows:
        rows.use(ResponsesSpec())
        rows.put(stored("r1"))

        rows.use(ResponsesSpec(kind="memory"))
        assert names(rows, "r1") == []
        rows.use(ResponsesSpec())
        assert names(rows, "r1") == ["r1"]


def test_damaged_file_is_told_and_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "responses.sqlite").write_bytes(b"no database" * 100)

    with closing(ResponseRows(tmp_path)) as rows:
        with pytest.raises(StateFolderInUse, match="damaged"):
            rows.use(ResponsesSpec())
        with pytest.raises(StoreFailed):
            rows.get("a", "r1")


def test_put_is_seen_by_what_is_asked_after_it(tmp_path: Path) -> None:
    async def run() -> None:
        store = ResponseStore(tmp_path)
        store.use(ResponsesSpec())
        await store.open()
        for number in range(50):
            store.put(stored(f"r{number}"))
            assert (await store.get("a", f"r{number}")).id == f"r{number}"
        store.use(ResponsesSpec(store=10))
        with pytest.raises(ResponseNotFound):
            await store.get("a", "r0")
        assert (await store.get("a", "r49")).id == "r49"
        await store.close()

    asyncio.run(run())


def test_what_waits_for_a_slow_disk_is_bounded(tmp_path: Path) -> None:
    async def run() -> None:
        store = ResponseStore(tmp_path, most_pending_bytes=50)
        store.use(ResponsesSpec(kind="memory"))
        await store.open()
        for name in ("r1", "r2", "r3"):
            store.put(stored(name, size=40))
        assert (await store.get("a", "r2")).id == "r2"
        with pytest.raises(ResponseNotFound):
            await store.get("a", "r3")
        store.put(stored("r4"))
        assert (await store.get("a", "r4")).id == "r4"
        await store.close()

    asyncio.run(run())


def test_conversation_that_takes_seconds_to_read_is_refused(tmp_path: Path) -> None:
    many = b'[{"type":"odd"' + b',"":1' * 150_000 + b"}]"

    async def run() -> None:
        store = ResponseStore(tmp_path)
        store.use(ResponsesSpec(kind="memory"))
        await store.open()
        store.put(StoredResponse("r1", "a", None, "completed", b'{"output":[]}', many))
        store.put(StoredResponse("r2", "a", "r1", "completed", b'{"output":[]}', many))
        reader = HistoryReader(store, "a", MOST * 10)
        assert len(await reader.listed("r1")) == 1
        with pytest.raises(InvalidRequest, match="more than 200000 fields"):
            await reader.read(decode_body(previous_response_id="r2"))
        await store.close()

    asyncio.run(run())


def test_store_of_nothing_keeps_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        store = ResponseStore(tmp_path)
        store.use(ResponsesSpec(store=0, kind="memory"))
        await store.open()
        assert not store.keeps
        store.put(stored("r1"))
        with pytest.raises(ResponseNotFound):
            await store.get("a", "r1")
        await store.close()

    asyncio.run(run())
