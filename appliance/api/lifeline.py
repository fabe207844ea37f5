"""Cancel a request's task when its client leaves, and own the only reader of `receive`."""

import asyncio
from typing import Any, cast

from litestar.types import ASGIApp, Message, Receive, ReceiveMessage, Scope, Send


class Lifeline:
    """An ASGI wrapper: once the body is read, one watcher waits for the client to leave.

    When it does, the task that runs the request is cancelled, so every `finally` on its path
    runs; that cancellation ends here, for to the server it is no error. Code inside that calls
    `receive` itself still gets the disconnect.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request for as long as its client stays."""
        call = _Call(receive, send)
        if not _has_body(scope):
            call.watch()
        try:
            await self._app(scope, call.receive, call.send)
        except asyncio.CancelledError:
            if not call.is_gone():
                raise
            call.task.uncancel()
        finally:
            call.finish()


class _Call:
    """One request's state, written by its own task and its watcher."""

    __slots__ = ("_gone", "_is_answered", "_is_body_over", "_receive", "_send", "_watcher", "task")

    def __init__(self, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self._receive, self._send = receive, send
        self._gone = asyncio.Event()
        self._is_answered = False
        self._is_body_over = False
        self._watcher: asyncio.Task[None] | None = None

    def is_gone(self) -> bool:
        return self._gone.is_set()

    def watch(self) -> None:
        self._watcher = asyncio.create_task(self._wait_for_disconnect())

    def finish(self) -> None:
        self._is_answered = True
        if self._watcher is not None:
            self._watcher.cancel()

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()
        if not self._is_answered:
            self.task.cancel()

    async def receive(self) -> ReceiveMessage:
        if self._watcher is not None:
            if not self._is_body_over:
                self._is_body_over = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await self._gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._gone.set()
            self.task.cancel()
            await asyncio.sleep(0)  # the cancellation arrives here
        elif not cast(Any, message).get("more_body"):
            self._is_body_over = True
            self.watch()
        return message

    async def send(self, message: Message) -> None:
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self._is_answered = True


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )
