"""Own a worker's socket: frames in, frames out, text made of tokens, a pulse every second."""

import contextlib
import selectors
import socket
import time
from typing import TYPE_CHECKING

import msgspec
import structlog

from appliance.channel import FrameSplitter, encode_frame
from appliance.engine.core import Core, Inbox
from appliance.engine.outbox import Outbox
from appliance.engine.wire import (
    PROTOCOL_VERSION,
    Close,
    Hello,
    Refused,
    Row,
    Step,
    Submit,
    TokenPrompt,
    to_worker_decoder,
)

if TYPE_CHECKING:
    from appliance.chat.tokenizer import TextDecoder, Tokenizer

_PULSE_SECONDS = 1.0
_RECEIVE_BYTES = 2**18

log = structlog.get_logger()


class Detokenizer:
    """The text decoders of the open requests. Reader thread only."""

    def __init__(self) -> None:
        self._decoders: dict[str, TextDecoder] = {}
        self._shown: dict[str, tuple[str, ...]] = {}

    def expect(self, submit: Submit) -> None:
        """Note which special tokens a request wants in its text; forgotten with its end."""
        if submit.shown and isinstance(submit.prompt, TokenPrompt):
            self._shown[submit.id] = submit.shown

    def forget(self, request_id: str) -> None:
        """Forget a request that was refused."""
        self._shown.pop(request_id, None)

    def fill(self, tokenizer: "Tokenizer", rows: list[Row]) -> None:
        """Give every row the text and lengths of its ids, and fill in its `logprobs`.

        The token that a `stop` ends with has no text, and is taken out of `logprobs`.
        """
        for row in rows:
            decoder = self._decoders.get(row.id)
            if decoder is None:
                shown = self._shown.pop(row.id, ())
                decoder = self._decoders[row.id] = tokenizer.decoder(shown)
            is_stopped = row.end is not None and row.end.reason == "stop"
            ids = row.ids[:-1] if is_stopped else row.ids
            row.logprobs = row.logprobs[: len(ids)]
            for token in row.logprobs:
                for each in (token, *token.top):
                    each.token = tokenizer.token_bytes(each.id)
            row.text, row.lengths = _decode(decoder, ids)
            if row.end is not None:
                row.text += self._decoders.pop(row.id).flush()


def _decode(decoder: "TextDecoder", ids: list[int]) -> tuple[str, list[int]]:
    """Return the text of `ids`, and how far apart the beginnings of their texts are."""
    texts, lengths = [], []
    before = decoder.position
    for number in ids:
        texts.append(decoder.push((number,)))
        after = decoder.position
        lengths.append(after - before)
        before = after
    return "".join(texts), lengths


class Reader:
    """The worker's end of the socket. `run` is the reader thread and owns everything here.

    Frames are taken from the outbox only while nothing waits for the socket, so a step is one
    frame as long as the parent keeps up. `wakeup` becomes readable when the outbox has something.
    """

    def __init__(
        self, sock: socket.socket, wakeup: socket.socket, core: Core, inbox: Inbox, outbox: Outbox
    ) -> None:
        self._sock = sock
        self._wakeup = wakeup
        self._core = core
        self._inbox = inbox
        self._outbox = outbox
        self._splitter = FrameSplitter()
        self._decoder = to_worker_decoder()
        self._detokenizer = Detokenizer()
        self._unsent = memoryview(b"")

    def run(self, pid: int) -> None:
        """Serve until the parent is gone or the engine has said its last word and it was sent.

        In the first case Close is left in the inbox, and the engine thread may still be busy.
        """
        self._sock.setblocking(False)
        self._wakeup.setblocking(False)
        self._unsent = memoryview(encode_frame(Hello(version=PROTOCOL_VERSION, pid=pid)))
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            selector.register(self._wakeup, selectors.EVENT_READ)
            try:
                self._loop(selector)
            except (OSError, EOFError):
                self._inbox.put(Close(model=""))
            except (ValueError, msgspec.MsgspecError) as error:
                log.error("frame_rejected", reason=str(error))  # noqa: TRY400 - the parent's bug
                self._inbox.put(Close(model=""))

    def _loop(self, selector: selectors.BaseSelector) -> None:
        pulse_at = time.monotonic() + _PULSE_SECONDS
        while True:
            if self._flush():
                return
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
            if events != selector.get_key(self._sock).events:
                selector.modify(self._sock, events)
            for key, ready in selector.select(max(0.0, pulse_at - time.monotonic())):
                if key.fileobj is self._wakeup:
                    self._wakeup.recv(_RECEIVE_BYTES)
                elif ready & selectors.EVENT_READ:
                    self._receive()
            if time.monotonic() >= pulse_at:
                pulse_at = time.monotonic() + _PULSE_SECONDS
                self._pulse()

    def _receive(self) -> None:
        data = self._sock.recv(_RECEIVE_BYTES)
        if not data:
            raise EOFError
        for body in self._splitter.feed(data):
            frame = self._decoder.decode(body)
            if isinstance(frame, Submit):
                self._detokenizer.expect(frame)
            self._inbox.put(frame)

    def _flush(self) -> bool:
        """Send what can be sent now; say whether everything there will ever be was sent."""
        while True:
            if not self._unsent:
                # Asked before taking: what was said before the last word is then taken too.
                is_last = self._outbox.is_closed
                self._unsent = memoryview(self._take())
                if not self._unsent:
                    return is_last
            with contextlib.suppress(BlockingIOError):
                self._unsent = self._unsent[self._sock.send(self._unsent) :]
                continue
            return False

    def _take(self) -> bytes:
        frames = self._outbox.take()
        tokenizer = self._core.body.tokenizer if self._core.body else None
        for frame in frames:
            if isinstance(frame, Refused):
                self._detokenizer.forget(frame.id)
            elif isinstance(frame, Step) and tokenizer is not None:
                self._detokenizer.fill(tokenizer, frame.rows)
        return b"".join(map(encode_frame, frames))

    def _pulse(self) -> None:
        pulse = self._core.pulse()
        if pulse is not None and not self._unsent:
            self._unsent = memoryview(encode_frame(pulse))
