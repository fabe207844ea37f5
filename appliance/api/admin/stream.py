"""Send an endless stream of values as server-sent events, until the client goes or we do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from litestar.types import Receive, Scope, Send

from appliance.api.sse import SSE_HEADERS

_LOOK_SECONDS = 1.0


class EventStream:
    """A raw ASGI response: one event for each JSON text of `texts`, comments in between.

    Ends when `texts` does or `is_ending` says so; the edge cancels it when the client goes.
    """

    def __init__(self, texts: AsyncIterator[bytes], is_ending: Callable[[], bool]) -> None:
        self._texts = texts
        self._is_ending = is_ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        start = {"type": "http.response.start", "status": 200, "headers": SSE_HEADERS}
        await send(cast(Any, start))
        following = asyncio.ensure_future(anext(self._texts, None))
        try:
            while not self._is_ending():
                await asyncio.wait([following], timeout=_LOOK_SECONDS)
                if not following.done():
                    await _send(send, b": \n\n")
                    continue
                text = following.result()
                if text is None:
                    break
                await _send(send, b"data: " + text + b"\n\n")
                following = asyncio.ensure_future(anext(self._texts, None))
        finally:
            following.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
