"""A request loads its model where there is room, and nobody's requests let it go again."""

import asyncio
from pathlib import Path

import pytest

from appliance.chat.request import ChatRequest, Message
from appliance.errors import ModelNotReady
from appliance.registry.phase import Phase
from tests.registry.stand import Stand, play, spec

pytestmark = pytest.mark.slow


def test_requests_of_an_absent_model_share_one_admission(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        async def room(name: str) -> int:
            return 500

        stand.room = room
        stand.serve(spec("a"))
        assert stand.seen().held_bytes == 0

        answers = await asyncio.gather(*(stand.ask() for _ in range(5)))

        assert (answers, stand.admitted) == (["a"] * 5, ["chat"])
        assert stand.seen().held_bytes == 500

    play(tmp_path, test)


def test_model_that_finds_no_room_stays_away(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        async def room(name: str) -> int:
            raise ModelNotReady(name, "other models hold the memory it needs")

        stand.room = room
        stand.serve(spec("a"))

        for _ in range(2):
            with pytest.raises(ModelNotReady, match="other models"):
                await stand.ask()

        assert (stand.seen().phase, stand.admitted) == (Phase.ABSENT, ["chat", "chat"])

    play(tmp_path, test)


def test_room_found_for_nobody_loads_nothing(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        found = asyncio.Event()

        async def room(name: str) -> int:
            await found.wait()
            return 500

        stand.room = room
        stand.serve(spec("a"))
        generation = stand.start("short")
        while not stand.admitted:
            await asyncio.sleep(0)
        stand.pipeline.close(generation)
        found.set()
        await asyncio.sleep(0)

        assert (stand.seen().load_key, stand.seen().held_bytes) == (None, 0)

    play(tmp_path, test)


def test_absent_model_loads_as_the_newest_revision_says(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        stand.serve(spec("absent"))
        with pytest.raises(ModelNotReady):
            await stand.ask()
        assert stand.seen().failed_key == spec("absent").load_key()

        stand.serve(spec("b"))

        assert await stand.ask() == "b"

    play(tmp_path, test)


def test_idle_model_leaves_after_its_time_and_comes_back(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        model = spec("a", residency={"idle_unload": 0.05})
        stand.serve(model)
        stream = await stand.begin("long")

        await stand.finish(stream)
        assert stand.seen().phase is Phase.READY
        await stand.until(lambda: stand.seen().phase is Phase.ABSENT)

        assert stand.value("model_unloads_total", reason="idle") == 1
        assert await stand.ask() == "a"

    play(tmp_path, test)


def test_idle_time_is_policy_and_models_that_must_stay_do(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        pinned = spec("a", residency={"idle_unload": 0.01, "pin": True})
        await stand.up(pinned, spec("b", "other", residency={"idle_unload": 0.01}))
        await stand.until(lambda: stand.seen("other").phase is Phase.ABSENT)
        assert stand.seen("chat").phase is Phase.READY

        stand.serve(spec("a", residency={"idle_unload": 0.01}))
        await stand.until(lambda: stand.seen("chat").phase is Phase.ABSENT)

        assert [each.name for each in stand.registry.observed()] == ["chat"]

    play(tmp_path, test)


def test_idle_model_stays_while_an_operator_wants_it(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        stand.is_kept = True
        idle = {"idle_unload": 0.01}
        await stand.up(spec("a", residency=idle), spec("b", "other", residency=idle))
        old = stand.pid()

        stand.registry.unload("other", "operator")
        await stand.until(lambda: stand.seen("other").phase is Phase.ABSENT)
        assert stand.pid() == old
        stand.is_kept = False

        await stand.until(lambda: stand.seen().phase is Phase.ABSENT)

    play(tmp_path, test)


def test_counting_a_prompt_is_no_use_of_its_model(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        model = spec("a", residency={"idle_unload": "300ms"})
        request = ChatRequest("chat", (Message("user", "one two three"),))
        await stand.up(model)

        while stand.seen().phase is Phase.READY:
            assert await stand.pipeline.lexicon.count(request) == 3
            await asyncio.sleep(0)

        await stand.until(lambda: stand.seen().phase is Phase.ABSENT)
        assert await stand.pipeline.lexicon.count(request) == 3
        assert stand.seen().phase is Phase.ABSENT

    play(tmp_path, test)
