"""See an admin's act through to its end, also when its caller hangs up meanwhile."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_running: set[asyncio.Task[Any]] = set()


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` does; a caller that is cancelled no longer waits, and the work goes on."""
    task = asyncio.create_task(work)
    _running.add(task)
    task.add_done_callback(_forget)
    return await asyncio.shield(task)


def _forget(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # its caller may be gone; else it is raised there
