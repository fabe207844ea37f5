"""Stream chat answers over raw sockets and note when every piece came, as cheaply as Python can."""

import json
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

_BUFFER_BYTES = 2**18
_TAIL_BYTES = 4096
_WORDS = ("river", "stone", "bread", "light", "winter", "garden", "paper", "engine", "small")
_WORDS += ("round", "copper", "field", "music", "window", "letter", "market")


@dataclass(slots=True, eq=False)
class Stream:
    """One answer on its way: when it was asked, when each piece with text came, and its usage."""

    connection: socket.socket
    asked: float
    times: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    tokens: int = 0
    is_done: bool = False
    _head: bytes = b""
    _tail: bytes = b""

    @property
    def first(self) -> float:
        """Seconds to the first piece."""
        return self.times[0] - self.asked

    def feed(self, piece: bytes, now: float) -> None:
        """Take bytes as they came. An event is text from the first that has some on."""
        self._tail = (self._tail + piece)[-_TAIL_BYTES:]
        if self.times:
            self.times += [now] * piece.count(b"data: {")
            return
        self._head += piece
        texts = sum(_has_text(line) for line in self._head.splitlines())
        self.times += [now] * texts

    def finish(self) -> None:
        """Read the usage, which comes last; raises where there is none."""
        self.is_done = True
        self.connection.close()
        for line in reversed(self._tail.splitlines()):
            if line.startswith(b"data: {") and b'"usage"' in line:
                usage = json.loads(line[6:]).get("usage")
                if usage:
                    self.tokens = usage["completion_tokens"]
                    self.prompt_tokens = usage["prompt_tokens"]
                    return
        raise RuntimeError(f"an answer without usage: {(self._head or self._tail)[:400]!r}")


class Client:
    """The streams to one server; one thread reads them all."""

    def __init__(self, url: str, model: str) -> None:
        self._url = urlsplit(url)
        self._model = model
        self._selector = selectors.DefaultSelector()
        self._buffer = bytearray(_BUFFER_BYTES)

    def ask(self, prompt: str, max_tokens: int) -> Stream:
        """Begin an answer."""
        body = json.dumps(_request(self._model, prompt, max_tokens)).encode()
        host = f"{self._url.hostname}:{self._url.port}"
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()
        assert self._url.hostname and self._url.port
        connection = socket.create_connection((self._url.hostname, self._url.port))
        stream = Stream(connection, time.perf_counter())
        connection.sendall(head + body)
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, stream)
        return stream

    def read(self, until: Callable[[], bool], seconds: float) -> None:
        """Read every stream until something is true, at the latest until none is left."""
        deadline = time.perf_counter() + seconds
        while not until() and self._selector.get_map():
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{len(self._selector.get_map())} streams did not end")
            for key, _ in self._selector.select(1.0):
                size = key.fileobj.recv_into(self._buffer)  # type: ignore[union-attr]
                stream: Stream = key.data
                if size:
                    stream.feed(bytes(self._buffer[:size]), time.perf_counter())
                    continue
                self._selector.unregister(key.fileobj)
                stream.finish()

    def drop(self) -> None:
        """Close every stream that has not ended."""
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fileobj)
            key.data.connection.close()


def make_prompt(number: int, num_words: int) -> str:
    """Return a question of so many words that is the same for a number and unlike the others."""
    words = [_WORDS[hash((number, index)) % len(_WORDS)] for index in range(num_words)]
    return f"[{number}] Tell a very long story, with every detail, about: {' '.join(words)}"


def _request(model: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _has_text(line: bytes) -> bool:
    if not line.startswith(b"data: {"):
        return False
    try:
        choices = json.loads(line[6:]).get("choices")
    except ValueError:
        return False  # cut off: it comes whole with the next piece
    delta = (choices[0].get("delta") or {}) if choices else {}
    return any(delta.get(key) for key in ("content", "reasoning_content", "reasoning"))
