"""The newest events can be read and waited for while any thread logs."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import structlog

from appliance.telemetry.tail import LogTail

CONFIGURED = """
import json, sys
import structlog
from appliance.telemetry.log import configure_logging
from appliance.telemetry.tail import LogTail
tail = LogTail()
configure_logging("info", sys.argv[1], sys.stderr, tail)
log = structlog.get_logger()
log.debug("not_shown")
log.info("model_loaded", model="chat", seconds=1.5)
try:
    secret = "open sesame"
    raise ValueError("broken")
except ValueError:
    log.exception("load_failed")
print(json.dumps(tail.newest(10)[0]))
"""


def logger(tail: LogTail) -> structlog.typing.FilteringBoundLogger:
    bound: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.testing.CapturingLogger(),
        processors=[structlog.processors.add_log_level, tail],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    return bound


def test_tail_keeps_the_newest_events() -> None:
    tail = LogTail(limit=3)
    log = logger(tail)

    for number in range(5):
        log.info("counted", number=number)

    assert tail.newest(2) == (
        [{"event": "counted", "level": "info", "number": number} for number in (3, 4)],
        5,
    )
    assert [event["number"] for event in tail.newest(100)[0]] == [2, 3, 4]
    assert tail.newest(0) == ([], 5)


def test_tail_gives_what_came_after_a_cursor() -> None:
    tail = LogTail(limit=3)
    log = logger(tail)
    log.info("before")
    cursor = tail.newest(0)[1]

    assert tail.since(cursor) == ([], 1)

    for number in range(5):
        log.info("counted", number=number)

    events, cursor = tail.since(cursor)
    assert [event["number"] for event in events] == [2, 3, 4]
    assert tail.since(cursor) == ([], 6)


def test_tail_changes_no_event_and_keeps_its_own_copy() -> None:
    event = {"event": "seen", "path": Path("a"), "names": ("b", {"c"}), "error": ValueError("d")}
    before = dict(event)
    tail = LogTail()

    assert tail(None, "info", event) is event

    assert event == before
    event["event"] = "changed"
    assert json.loads(json.dumps(tail.newest(1)[0])) == [
        {
            "event": "seen",
            "path": repr(Path("a")),
            "names": ["b", ["c"]],
            "error": "ValueError('d')",
        }
    ]


def test_tail_wakes_whoever_waits_when_another_thread_logs() -> None:
    tail = LogTail()
    log = logger(tail)

    async def scenario() -> list[object]:
        waiting = [asyncio.create_task(tail.wait(0)) for _ in range(3)]
        await asyncio.sleep(0)
        threading.Thread(target=log.info, args=("logged",)).start()
        await asyncio.wait_for(asyncio.gather(*waiting), 10)
        return [event["event"] for event in tail.since(0)[0]]

    assert asyncio.run(scenario()) == ["logged"]


def test_tail_wait_returns_at_once_when_there_is_something() -> None:
    tail = LogTail()
    logger(tail).info("logged")

    asyncio.run(asyncio.wait_for(tail.wait(0), 10))

    assert tail.newest(1)[1] == 1


def test_tail_forgets_who_no_longer_waits() -> None:
    tail = LogTail()

    async def scenario() -> None:
        waiting = asyncio.create_task(tail.wait(0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    asyncio.run(scenario())

    logger(tail).info("logged")
    assert tail.newest(1)[1] == 1


def test_tail_loses_nothing_between_threads() -> None:
    tail = LogTail(limit=10_000)
    log = logger(tail)

    def count(thread: int) -> None:
        for number in range(500):
            log.info("counted", thread=thread, number=number)

    async def scenario() -> list[tuple[int, int]]:
        threads = [threading.Thread(target=count, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        read: list[tuple[int, int]] = []
        cursor = 0
        while len(read) < 2000:
            await asyncio.wait_for(tail.wait(cursor), 10)
            events, cursor = tail.since(cursor)
            read += [(event["thread"], event["number"]) for event in events]
        return read

    read = asyncio.run(scenario())

    assert len(read) == len(set(read)) == 2000
    for thread in range(4):
        assert [number for who, number in read if who == thread] == list(range(500))


def test_tail_gets_what_the_log_of_the_process_says() -> None:
    for log_format in ("json", "console"):
        command = [sys.executable, "-W", "error", "-c", CONFIGURED, log_format]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        loaded, failed = json.loads(done.stdout)

        assert loaded.pop("timestamp").endswith("Z")
        assert loaded == {
            "event": "model_loaded",
            "level": "info",
            "model": "chat",
            "seconds": 1.5,
        }
        assert failed["event"] == "load_failed"
        assert failed["exception"].endswith("ValueError: broken")
        assert "exc_info" not in failed
        assert "open sesame" not in done.stderr
        assert "model_loaded" in done.stderr
