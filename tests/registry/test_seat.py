"""Copies of a model come, take over, drain and leave; no request is lost for that."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from appliance.errors import ApplianceError, EngineStopped, ModelNotFound, ModelNotReady
from appliance.registry.lease import Lease
from appliance.registry.phase import Phase
from tests.registry.stand import NUM_PIECES, Stand, is_running, play, profile, spec

pytestmark = pytest.mark.slow

VERIFY: dict[str, object] = {"prompts": ({"ask": "verify", "expect": "."},)}


def test_swap_under_running_streams_loses_none(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        old = stand.pid()
        streams = [await stand.begin("long") for _ in range(16)]

        stand.serve(spec("b"))
        stand.registry.swap("chat", spec("b"), 0)
        during = []
        while stand.seen().load_key != spec("b").load_key():
            during.append(await stand.ask())

        assert stand.seen().incoming_key is None
        assert await stand.ask() == "b"
        assert during[0] == "a" and set(during) <= {"a", "b"}
        answers = await asyncio.gather(*map(stand.finish, streams))
        assert answers == ["a " * NUM_PIECES] * 16
        await stand.until(lambda: not stand.seen().is_busy)
        assert not is_running(old) and stand.pid() != old
        assert stand.value("model_unloads_total", reason="replaced") == 1

    play(tmp_path, test)


@pytest.mark.parametrize("script", ["absent", "bad"])
def test_swap_to_what_does_not_load_keeps_the_old_copy(tmp_path: Path, script: str) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        old, new = stand.pid(), spec(script)

        stand.serve(new)
        stand.registry.swap("chat", new, 0)
        await stand.until(lambda: stand.seen().failed_key and not stand.seen().is_busy)

        assert stand.seen().failed_key == new.load_key()
        assert (stand.seen().load_key, stand.pid()) == (spec("a").load_key(), old)
        assert (stand.seen().phase, await stand.ask()) == (Phase.READY, "a")
        (status,) = stand.registry.statuses()
        assert f"{script}.yaml" in str(status.last_error) and status.desired_key == new.load_key()
        stand.registry.forget_failures()
        assert stand.seen().failed_key is None

    play(tmp_path, test)


def test_swap_to_what_does_not_verify_keeps_the_old_copy(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a", verify=VERIFY))
        stand.flaw, new = "wrong answer", spec("b", verify=VERIFY)

        stand.serve(new)
        stand.registry.swap("chat", new, 0)
        await stand.until(lambda: stand.seen().failed_key and not stand.seen().is_busy)

        assert stand.verified == ["a", "b"]
        assert (stand.seen().reason, await stand.ask()) == ("wrong answer", "a")
        assert stand.value("model_loads_total") == 1

    play(tmp_path, test)


def test_model_that_fails_verify_may_be_told_not_to_serve_at_all(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        stand.flaw, new = "wrong answer", spec("b", verify=VERIFY | {"on_failure": "fail"})

        stand.serve(new)
        stand.registry.swap("chat", new, 0)
        await stand.until(lambda: stand.seen().phase is Phase.FAILED and not stand.seen().is_busy)

        assert (stand.seen().load_key, stand.seen().failed_key) == (None, new.load_key())
        with pytest.raises(ModelNotReady):
            await stand.ask()

    play(tmp_path, test)


def test_reload_lets_requests_wait_for_the_only_copy(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        old, stream = stand.pid(), await stand.begin("long")
        stand.registry.load("chat", spec("a"), 100)

        stand.serve(spec("b"))
        stand.registry.reload("chat", spec("b"), 80)
        await stand.until(lambda: stand.seen().load_key == spec("b").load_key())
        waiting = stand.start("short")

        assert (stand.seen().phase, stand.seen().held_bytes) == (Phase.LOADING, 100)
        assert await stand.finish(stream) == "a " * NUM_PIECES
        assert await stand.finish(waiting) == "b"
        assert not is_running(old)
        assert (stand.seen().held_bytes, stand.seen().is_busy) == (80, False)

    play(tmp_path, test)


def test_reload_that_fails_brings_the_old_load_back(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        stand.flaw, new = "wrong answer", spec("b", verify=VERIFY)

        stand.serve(new)
        stand.registry.reload("chat", new, 0)
        await stand.until(lambda: stand.seen().load_key == new.load_key())
        waiting = stand.start("short")

        assert await stand.finish(waiting) == "a"
        assert stand.verified == ["b"]
        assert stand.seen().load_key == spec("a").load_key()
        assert stand.seen().failed_key == new.load_key()
        assert stand.registry.statuses()[0].last_error == "wrong answer"

    play(tmp_path, test)


def test_reload_without_files_never_touches_the_old_copy(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        old = stand.pid()

        stand.serve(spec("absent"))
        stand.registry.reload("chat", spec("absent"), 0)
        await stand.until(lambda: stand.seen().failed_key)

        assert (stand.pid(), await stand.ask()) == (old, "a")

    play(tmp_path, test)


def test_unload_drains_and_the_next_request_loads_again(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        old, stream = stand.pid(), await stand.begin("long")

        stand.registry.unload("chat", "operator: asked for it")
        stand.registry.unload("chat", "operator: asked for it")

        assert (stand.seen().phase, stand.seen().is_busy) == (Phase.DRAINING, True)
        assert await stand.finish(stream) == "a " * NUM_PIECES
        await stand.until(lambda: stand.seen().phase is Phase.ABSENT)
        assert not is_running(old)
        assert stand.value("model_unloads_total", reason="operator") == 1
        assert (await stand.ask(), stand.admitted) == ("a", ["chat"])

    play(tmp_path, test)


def test_drain_ends_with_the_longest_time_a_request_may_take(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        stand.serve(spec("a"), timeout=0.2)
        stream = await stand.begin("endless")

        stand.registry.unload("chat", "manifest")

        with pytest.raises(EngineStopped):
            await stand.finish(stream)
        await stand.until(lambda: stand.seen().phase is Phase.ABSENT)

    play(tmp_path, test)


def test_model_removed_while_streaming_ends_its_stream_first(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"), spec("b", "other"))
        stream = await stand.begin("long")

        stand.serve(spec("b", "other"))
        stand.registry.unload("chat", "removed from the manifest")

        with pytest.raises(ModelNotFound):
            stand.registry.find("chat")
        assert stand.seen().phase is Phase.DRAINING
        assert await stand.finish(stream) == "a " * NUM_PIECES
        await stand.until(lambda: len(stand.registry.observed()) == 1)
        assert b'model="chat"' not in stand.metrics.exposition()
        assert await stand.ask(model="other") == "b"

    play(tmp_path, test)


def test_profiles_share_one_worker(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        base = spec("a")
        await stand.up(base, profile("fast", base, aliases=("quick",)))

        answers = [await stand.ask(model=name) for name in ("chat", "fast", "quick")]

        assert answers == ["a", "a", "a"]
        assert stand.registry.find("quick").name == "fast"
        assert stand.pid("fast") == stand.pid("chat")
        assert [each.name for each in stand.registry.observed()] == ["chat"]
        assert stand.registry.statuses()[0].profiles == ("fast",)
        assert stand.value("requests_total", model="fast", api="chat", result="ok") == 2
        stand.serve(base)
        assert stand.value("requests_total", model="fast", api="chat", result="ok") is None

    play(tmp_path, test)


def test_swap_back_to_what_serves_drops_the_copy_under_way(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        old = stand.pid()
        stand.serve(spec("b"))
        stand.registry.swap("chat", spec("b"), 0)

        stand.serve(spec("a"))
        await stand.until(lambda: not stand.seen().is_busy)

        assert (stand.seen().load_key, stand.pid()) == (spec("a").load_key(), old)
        assert stand.value("model_loads_total") == 1

    play(tmp_path, test)


def test_request_follows_its_name_to_a_copy_that_replaces_one_never_loaded(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        stand.serve(spec("a"))
        stand.registry.load("chat", spec("a"), 0)
        waiting = stand.start("short")

        stand.serve(spec("b"))
        stand.registry.reload("chat", spec("b"), 0)

        assert await stand.finish(waiting) == "b"

    play(tmp_path, test)


def test_policy_edit_keeps_the_copy_and_is_in_force_at_once(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        old, stream = stand.pid(), await stand.begin("long")

        stand.serve(spec("a", aliases=("other",), sampling={"temperature": 0.5}))

        assert stand.registry.find("other").spec.sampling.temperature == 0.5
        assert await stand.ask(model="other") == "a"
        assert await stand.finish(stream) == "a " * NUM_PIECES
        assert stand.pid() == old and not stand.seen().is_busy

    play(tmp_path, test)


def test_worker_that_dies_while_verified_is_tried_again(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        async def kill(lease: Lease) -> None:
            if not stand.verified:
                stand.verified.append("killed")
                loaded = await lease.ready()
                os.kill(loaded.engine.pid or 0, signal.SIGKILL)
                await asyncio.Event().wait()

        stand.examine = kill

        await stand.up(spec("a", verify=VERIFY))

        assert stand.verified == ["killed", "a"]
        assert stand.seen().failed_key is None

    play(tmp_path, test)


def test_copy_whose_worker_dies_while_it_drains_is_not_started_again(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        stream, old = await stand.begin("endless"), stand.pid()
        leaving = stand.registry.find("chat").resident
        stand.serve(spec("b"))
        stand.registry.reload("chat", spec("b"), 0)
        await stand.until(lambda: stand.seen().load_key == spec("b").load_key())

        os.kill(old, signal.SIGKILL)

        with pytest.raises(ApplianceError):
            await stand.finish(stream)
        assert await stand.ask() == "b"
        assert (leaving.phase, leaving.restarts) == (Phase.ABSENT, 1)

    play(tmp_path, test)


def test_third_revision_replaces_the_second_on_its_way(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        large = spec("a", engine={"max_sequences": 3})
        stand.serve(spec("b"))
        stand.registry.swap("chat", spec("b"), 0)
        await stand.until(lambda: stand.seen().incoming_key)

        stand.serve(large)
        stand.registry.swap("chat", large, 0)
        await stand.until(lambda: stand.seen().load_key == large.load_key())
        await stand.until(lambda: not stand.seen().is_busy)

        assert await stand.ask() == "a"
        assert stand.registry.find("chat").resident.spec.engine.max_sequences == 3

    play(tmp_path, test)


def test_every_worker_is_gone_after_a_stop_at_any_moment(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        await stand.up(spec("a"))
        old, stream = stand.pid(), await stand.begin("endless")
        stand.serve(spec("b"))
        stand.registry.swap("chat", spec("b"), 0)
        await stand.until(lambda: stand.seen().load_key == spec("b").load_key())
        new = stand.pid()

        await stand.registry.stop()

        assert not is_running(old) and not is_running(new)
        with pytest.raises(EngineStopped):
            await stand.finish(stream)
        with pytest.raises(ModelNotReady):
            await stand.ask()

    play(tmp_path, test)
