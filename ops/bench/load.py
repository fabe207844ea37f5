"""Read many chat streams over raw sockets and count their pieces, as cheaply as Python can."""

import selectors
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass
class Load:
    """What one round moved: SSE events, bytes, seconds from the first request to the last byte."""

    events: int
    num_bytes: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.events / self.seconds


def read_streams(url: str, body: bytes, num_streams: int, seconds: float = 60.0) -> Load:
    """POST `body` on `num_streams` connections and read every answer to its end."""
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    head = (
        f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()
    selector = selectors.DefaultSelector()
    for _ in range(num_streams):
        connection = socket.create_connection((parts.hostname, parts.port))
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)
    started = time.perf_counter()
    for key in list(selector.get_map().values()):
        key.fileobj.send(head + body)
    load = _drain(selector, started + seconds)
    load.seconds = time.perf_counter() - started
    return load


def _drain(selector: selectors.BaseSelector, deadline: float) -> Load:
    load = Load(0, 0, 0.0)
    buffer = bytearray(2**18)
    while selector.get_map():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"{len(selector.get_map())} streams did not end")
        for key, _ in selector.select(1.0):
            size = key.fileobj.recv_into(buffer)
            if not size:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                continue
            load.num_bytes += size
            load.events += buffer.count(b"data: ", 0, size)
    return load
