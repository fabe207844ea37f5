"""Carry length-prefixed msgpack between a parent and its child processes over a socketpair.

A frame is a 4-byte big-endian length and that many bytes of msgpack (msgspec tagged structs).
The parent's end is asyncio; the child's end is whatever its process likes.
"""

import asyncio
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from appliance.launch import module_command, module_environment

_LENGTH = struct.Struct(">I")
MAX_FRAME_BYTES = 256 * 2**20

_encoder = msgspec.msgpack.Encoder()


def encode_frame(message: msgspec.Struct) -> bytes:
    """Return `message` as one frame, ready to be sent."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class FrameSplitter:
    """Cut a byte stream into frame bodies. One reader feeds it; not thread-safe."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes and yield every frame body that is now complete.

        Raises ValueError on a length over MAX_FRAME_BYTES: the stream cannot be trusted further.
        """
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, start)
                if length > MAX_FRAME_BYTES:
                    raise ValueError(f"frame of {length} bytes")
                end = start + _LENGTH.size + length
                if len(self._buffer) < end:
                    return
                body = bytes(self._buffer[start + _LENGTH.size : end])
                start = end
                yield body
        finally:
            del self._buffer[:start]


class Channel(asyncio.Protocol):
    """The parent's end: decodes what arrives, on the event loop only.

    `on_message` gets each decoded struct; `on_lost` is called once, when the other end is gone.
    """

    def __init__(
        self,
        decoder: msgspec.msgpack.Decoder[Any],
        on_message: Callable[[Any], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._decoder = decoder
        self._on_message = on_message
        self._on_lost = on_lost
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None

    async def open(self, sock: socket.socket) -> None:
        """Take ownership of a connected socket and start reading it."""
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self, sock=sock)

    def send(self, message: msgspec.Struct) -> None:
        """Queue one message; silently dropped when the other end is already gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode_frame(message))

    def close(self) -> None:
        """Send what is queued and close this end; `on_lost` follows. Idempotent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """As `close`, but drop what is queued: the other end may never read it."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        # uvloop's transports do not derive from asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        for body in self._splitter.feed(data):
            self._on_message(self._decoder.decode(body))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._on_lost()


def spawn_child(module: str, *args: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start `python -m module FD args…` in a session of its own; return it and our socket end.

    The child inherits one end of a socketpair as descriptor FD and must exit on end of file.
    A session of its own keeps a terminal's Ctrl-C away from it: the parent decides.
    """
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            module_command(module, str(theirs.fileno()), *args),
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=module_environment() | {"PYTHONUNBUFFERED": "1"},
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return process, ours
