"""Serve the same bytes without the appliance: `peers.py bare|fastapi PORT PIECES`.

`bare` is one ASGI function on the appliance's own embedded Granian; `fastapi` is FastAPI with
sse-starlette on uvicorn. Both send PIECES chunks of a chat completion, one a piece.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

CHUNK = json.dumps(
    {
        "id": "chatcmpl-" + "0" * 32,
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "load",
        "choices": [
            {"index": 0, "delta": {"content": "token "}, "logprobs": None, "finish_reason": None}
        ],
    },
    separators=(",", ":"),
)


def bare(port: int, pieces: int) -> None:
    import uvloop

    from appliance.api.listener import Listener, TcpAddress

    event = b"data: " + CHUNK.encode() + b"\n\n"
    headers = [(b"content-type", b"text/event-stream; charset=utf-8")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(pieces):
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def main() -> None:
        await Listener(app, TcpAddress("127.0.0.1", port)).start()
        await asyncio.Event().wait()

    uvloop.run(main())


def fastapi(port: int, pieces: int) -> None:
    import uvicorn
    from fastapi import FastAPI
    from sse_starlette.sse import EventSourceResponse

    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def chat() -> EventSourceResponse:
        async def events() -> AsyncIterator[dict[str, str]]:
            for _ in range(pieces):
                yield {"data": CHUNK}
                await asyncio.sleep(0)

        return EventSourceResponse(events())

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    {"bare": bare, "fastapi": fastapi}[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
