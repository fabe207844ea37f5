"""A worker that is stuck or silent is noticed, and one that only looks so is left alone."""

import asyncio
from collections.abc import Callable

from appliance.engine.watchdog import Watchdog
from appliance.engine.wire import Pulse

LIMIT = 10.0


class Scene:
    """A watchdog over a clock that the test turns, and what it said."""

    def __init__(self, *, is_loaded: bool = True) -> None:
        self.now = 1000.0
        self.said: list[tuple[str, float, int | None]] = []
        self.dog = Watchdog(LIMIT, lambda *words: self.said.append(words), lambda: self.now)
        self.dog.start()
        if is_loaded:
            self.dog.loaded()

    def look_after(self, seconds: float) -> None:
        self.now += seconds
        self.dog.look()

    def pulse(self, step: int, seconds: float) -> None:
        self.dog.hear()
        self.dog.pulse(Pulse("m", step, seconds))


def play(test: Callable[[Scene], None], *, is_loaded: bool = True) -> Scene:
    """Run `test` inside a loop, as timers need one; none is due before the test has ended."""

    async def main() -> Scene:
        scene = Scene(is_loaded=is_loaded)
        test(scene)
        scene.dog.stop()
        return scene

    return asyncio.run(main())


def test_silent_worker_is_stuck_at_the_second_look() -> None:
    def watch(scene: Scene) -> None:
        scene.look_after(LIMIT + 1)
        assert scene.said == []
        scene.look_after(2)

    assert play(watch).said == [("was silent for 13.0 s", 13.0, None)]


def test_frame_that_waited_in_the_socket_clears_the_suspicion() -> None:
    def watch(scene: Scene) -> None:
        for _ in range(5):
            scene.look_after(LIMIT * 100)
            scene.dog.hear()

    assert play(watch).said == []


def test_one_frame_in_time_is_enough() -> None:
    def watch(scene: Scene) -> None:
        for _ in range(20):
            scene.look_after(LIMIT - 1)
            scene.look_after(0.5)
            scene.dog.hear()

    assert play(watch).said == []


def test_long_step_is_stuck_at_its_second_pulse() -> None:
    def watch(scene: Scene) -> None:
        scene.pulse(7, LIMIT)
        scene.pulse(7, LIMIT + 1)
        assert scene.said == []
        scene.pulse(7, LIMIT + 2)
        scene.pulse(7, LIMIT + 3)

    assert play(watch).said == [("was stuck in a step for 12.0 s", 12.0, 7)]


def test_steps_that_end_late_are_not_stuck() -> None:
    def watch(scene: Scene) -> None:
        for step in range(5):
            scene.pulse(step, LIMIT + 1)
        scene.pulse(4, 0.0)
        scene.pulse(4, LIMIT + 1)

    assert play(watch).said == []


def test_load_may_take_its_time_but_not_be_silent() -> None:
    def watch(scene: Scene) -> None:
        for second in range(1000):
            scene.pulse(0, float(second))
        scene.look_after(59)
        scene.look_after(2)
        assert scene.said == []
        scene.look_after(2)

    assert play(watch, is_loaded=False).said == [("was silent for 63.0 s", 63.0, None)]


def test_stopped_watchdog_says_nothing() -> None:
    def watch(scene: Scene) -> None:
        scene.dog.stop()
        scene.dog.stop()
        scene.pulse(1, LIMIT + 1)
        scene.pulse(1, LIMIT + 2)

    assert play(watch).said == []


def test_timer_comes_by_itself() -> None:
    async def main() -> None:
        stuck = asyncio.Event()
        dog = Watchdog(0.05, lambda *_: stuck.set())
        dog.start()
        dog.loaded()
        await asyncio.wait_for(stuck.wait(), 10)

    asyncio.run(main())


def test_step_timeout_may_change_while_watching() -> None:
    def watch(scene: Scene) -> None:
        scene.dog.set_step_timeout(2 * LIMIT)
        scene.pulse(7, LIMIT + 1)
        scene.pulse(7, LIMIT + 2)
        assert scene.said == []
        scene.dog.set_step_timeout(LIMIT)
        scene.pulse(7, LIMIT + 3)
        scene.pulse(7, LIMIT + 4)

    assert play(watch).said == [("was stuck in a step for 14.0 s", LIMIT + 4, 7)]
