"""Stand outermost: swap the app by one attribute and know what is in flight."""

import asyncio
from typing import Any

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send


class Gate:
    """The ASGI callable a listener keeps for life. Event loop only."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.is_draining = False
        self._in_flight: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request with the app of this moment."""
        if scope["type"] != ScopeType.HTTP:
            return
        task = asyncio.current_task()
        assert task is not None
        self._in_flight.add(task)
        try:
            await self.app(scope, receive, send)
        finally:
            self._in_flight.discard(task)

    async def wait_idle(self, seconds: float) -> bool:
        """Wait until nothing is in flight and return True; False if time ran out first."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._in_flight:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await asyncio.wait(
                set(self._in_flight), timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
        return True

    def cancel_all(self) -> None:
        """Cancel every request that is still in flight, whatever it is doing."""
        for task in tuple(self._in_flight):
            task.cancel()
