"""Let one process at a time do a piece of work, by a lock file."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

_POLL_SECONDS = 0.1


@asynccontextmanager
async def exclusive_lock(path: Path, on_wait: Callable[[], None]) -> AsyncIterator[int]:
    """Hold the lock file `path`; yields its descriptor, calls `on_wait` once before a wait.

    Works between tasks and between processes. The lock lasts while any process holds the
    descriptor: a child that inherited it keeps others out after its parent was killed.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _try_lock(descriptor):
            on_wait()
            while not _try_lock(descriptor):  # noqa: ASYNC110  # no event tells of a free file lock
                await asyncio.sleep(_POLL_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
