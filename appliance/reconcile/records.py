"""Call the history from the event loop: on one thread of its own, one call after the other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from appliance.reconcile.history import History

P = ParamSpec("P")
T = TypeVar("T")


class Records:
    """The history's thread. `open`, then calls, then `close`; any task of one event loop."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._history: History | None = None

    async def open(self) -> None:
        """Open the file; raises what History does."""
        self._history = await self._run(partial(History, self._file))

    async def __call__(
        self, verb: Callable[Concatenate[History, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a method of History does: `await records(History.find, 3)`."""
        assert self._history is not None
        return await self._run(partial(verb, self._history, *args, **kwargs))

    async def close(self) -> None:
        """Close the file and end the thread."""
        history, self._history = self._history, None
        if history is not None:
            await self._run(history.close)
        self._thread.shutdown(wait=False)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)
