"""Run the text process: `python -m appliance.chat.process FD MEMORY_BYTES`.

Threads: the main one reads frames; one loads tokenizers and runs templates, one after the other,
because both hold the interpreter lock; a pool encodes, which does not; one watches memory.
It ends at once when the gateway's end of the socket closes, whatever its threads do.
"""

import faulthandler
import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from appliance.channel import FrameSplitter, encode_frame
from appliance.chat import wire
from appliance.chat.normalise import normalise
from appliance.chat.probe import find_traits
from appliance.chat.template import ChatTemplate
from appliance.chat.thinking import template_values, thinking_values
from appliance.chat.tokenizer import Tokenizer
from appliance.chat.traits import Traits
from appliance.errors import InvalidRequest, SourceError

_NUM_ENCODERS = 2
_WATCH_SECONDS = 0.02
# What has at most so many characters a token of the limit is encoded without further ado.
_USUAL_CHARACTERS = 4
_TAIL_CHARACTERS = 256
# The gateway kills a template long before. This ends a process whose gateway is gone, too, and
# works while the interpreter lock is held.
_LONGEST_TEMPLATE_SECONDS = 120.0


class Outbox:
    """Sends frames to the gateway, from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()

    def send(self, message: wire.FromText) -> None:
        """Send one frame; ends the process if the gateway is gone."""
        frame = encode_frame(message)
        try:
            with self._lock:
                self._sock.sendall(frame)
        except OSError:
            os._exit(0)


class TemplateWatch:
    """Tells the gateway when a template runs, and ends the process if it takes too much memory.

    `running` is for the one thread that runs templates; `watch` is the body of a thread.
    """

    def __init__(self, outbox: Outbox, limit_bytes: int) -> None:
        self._outbox = outbox
        self._limit_bytes = limit_bytes
        self._active = threading.Event()
        self._excess: tuple[int, wire.FromText] | None = None

    @contextmanager
    def running(self, job: int, failure: wire.FromText) -> Iterator[None]:
        """Watch the template of `job`; `failure` is its answer if it takes too much."""
        self._outbox.send(wire.Started(job))
        self._excess = (_peak_bytes() + self._limit_bytes, failure)
        self._active.set()
        faulthandler.dump_traceback_later(_LONGEST_TEMPLATE_SECONDS, exit=True)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            self._active.clear()
            self._excess = None
            self._outbox.send(wire.Stopped(job))

    def watch(self) -> None:
        """Never return: what a template took cannot be taken back, except with the process."""
        while self._active.wait():
            excess = self._excess
            if excess is not None and _peak_bytes() > excess[0]:
                self._outbox.send(excess[1])
                os._exit(1)
            time.sleep(_WATCH_SECONDS)


class _Model(NamedTuple):
    tokenizer: Tokenizer
    template: ChatTemplate
    traits: Traits


class Renderer:
    """Owns the models and everything that waits; only the thread in `run` touches them.

    Another thread calls `receive`. Jobs go before loads, so that a model that is being configured
    does not hold up the others more than one load at a time. `_wanted` holds the jobs without an
    answer that nobody cancelled: one thread adds, any thread discards.
    """

    def __init__(self, outbox: Outbox, watch: TemplateWatch) -> None:
        self._inbox: queue.SimpleQueue[wire.ToText] = queue.SimpleQueue()
        self._wanted: set[int] = set()
        self._outbox = outbox
        self._watch = watch
        self._encoders = ThreadPoolExecutor(_NUM_ENCODERS, "encoder")
        self._models: dict[str, _Model] = {}
        self._loads: dict[str, wire.Configure] = {}
        self._jobs: deque[wire.TextJob] = deque()

    def receive(self, message: wire.ToText) -> None:
        """Take a frame; a Cancel is heard at once, however much waits before it."""
        if isinstance(message, wire.Cancel):
            self._wanted.discard(message.job)
            return
        if isinstance(message, wire.TextJob):
            self._wanted.add(message.job)
        self._inbox.put(message)

    def run(self) -> None:
        """Answer frames for ever."""
        while True:
            self._collect()
            if self._loads or self._jobs:
                self._step()

    def _collect(self) -> None:
        if not self._loads and not self._jobs:
            self._sort(self._inbox.get())
        while not self._inbox.empty():
            self._sort(self._inbox.get())

    def _sort(self, message: wire.ToText) -> None:
        match message:
            case wire.Configure(model=model):
                self._loads[model] = message
            case wire.Forget(model=model):
                self._loads.pop(model, None)
                self._models.pop(model, None)
            case wire.Render() | wire.Encode() | wire.Decode():
                self._jobs.append(message)

    def _step(self) -> None:
        for index, frame in enumerate(self._jobs):
            if frame.model not in self._loads:
                del self._jobs[index]
                self._begin(frame)
                return
        wanted = self._jobs[0].model if self._jobs else next(iter(self._loads))
        self._load(self._loads.pop(wanted))

    def _load(self, frame: wire.Configure) -> None:
        self._models.pop(frame.model, None)
        excess = wire.Fault(frame.directory, "its chat template takes too much memory")
        try:
            tokenizer = Tokenizer.load(Path(frame.directory))
            with self._watch.running(frame.job, wire.Configured(frame.job, excess)):
                template = ChatTemplate.load(
                    Path(frame.directory),
                    tokenizer.special_tokens,
                    Path(frame.template_file) if frame.template_file else None,
                )
                traits = find_traits(template)
        except SourceError as error:
            fault = wire.Fault(error.source, error.reason)
            self._outbox.send(wire.Configured(frame.job, fault))
        else:
            has_infill = tokenizer.infill is not None
            traits = msgspec.structs.replace(traits, encodes_suffix=has_infill)
            self._models[frame.model] = _Model(tokenizer, template, traits)
            self._outbox.send(wire.Configured(frame.job, traits=traits))

    def _begin(self, frame: wire.TextJob) -> None:
        model = self._models.get(frame.model)
        if frame.job not in self._wanted:
            self._answer(_cancelled(frame.job))
            return
        if model is None:
            self._answer(wire.TextFailed(frame.job, "not_loaded", "no tokenizer is loaded"))
            return
        try:
            match frame:
                case wire.Render():
                    self._submit(self._encode, frame, model.tokenizer, self._render(frame, model))
                case wire.Encode():
                    self._submit(self._encode, frame, model.tokenizer, _written(frame, model))
                case wire.Decode():
                    self._submit(self._decode, frame, model.tokenizer)
        except InvalidRequest as error:
            self._answer(_failure(frame.job, error))

    def _render(self, frame: wire.Render, model: _Model) -> str:
        messages = normalise(frame.messages, model.traits)
        if frame.tools and not model.traits.shows_tools:
            raise InvalidRequest("The model's chat template cannot show tools.", param="tools")
        values = template_values(frame.defaults, model.traits)
        values |= thinking_values(frame.thinking, model.traits)
        values |= template_values(frame.template_kwargs, model.traits)
        spelling = model.traits.spelling
        excess = InvalidRequest("The chat template takes too much memory.", param="messages")
        with self._watch.running(frame.job, _failure(frame.job, excess)):
            return model.template.render(messages, frame.tools, values, spelling)

    def _submit(self, work: Callable[..., None], *args: object) -> None:
        self._encoders.submit(work, *args).add_done_callback(_end_on_error)

    def _encode(self, frame: wire.Render | wire.Encode, tokenizer: Tokenizer, text: str) -> None:
        job, limit = frame.job, frame.limit_tokens
        adds_special = isinstance(frame, wire.Encode) and frame.adds_special
        try:
            answer = self._refuse_early(job, tokenizer, text, limit)
            if answer is None:
                ids = tokenizer.encode(text, add_special_tokens=adds_special)
                answer = wire.Rendered(job, ids, text[-_TAIL_CHARACTERS:])
                if limit is not None and len(ids) > limit:
                    answer = wire.TooLong(job, limit, len(ids), is_at_least=False)
                elif not ids:
                    answer = _failure(job, _empty(frame))
        except InvalidRequest as error:
            answer = _failure(job, error)
        self._answer(answer)

    def _decode(self, frame: wire.Decode, tokenizer: Tokenizer) -> None:
        for index, number in enumerate(frame.ids):
            if not tokenizer.is_token(number):
                wrong = InvalidRequest(f"There is no token {number}.", param=f"tokens[{index}]")
                self._answer(_failure(frame.job, wrong))
                return
        if frame.is_apart:
            texts = [tokenizer.token_bytes(each).decode(errors="replace") for each in frame.ids]
        else:
            texts = [tokenizer.decode(frame.ids, keeps_special=True)]
        self._answer(wire.Decoded(frame.job, texts))

    def _refuse_early(
        self, job: int, tokenizer: Tokenizer, text: str, limit: int | None
    ) -> wire.FromText | None:
        """Find out at little cost whether `text` need not be encoded; None if it must be."""
        if job not in self._wanted:
            return _cancelled(job)
        if limit is None or len(text) <= limit * _USUAL_CHARACTERS:
            return None
        for least in tokenizer.lower_bounds(text):
            if job not in self._wanted:
                return _cancelled(job)
            if least > limit:
                return wire.TooLong(job, limit, least, is_at_least=True)
        return None

    def _answer(self, message: wire.FromText) -> None:
        self._wanted.discard(message.job)
        self._outbox.send(message)


def _cancelled(job: int) -> wire.TextFailed:
    return wire.TextFailed(job, "cancelled", "nobody waits for it")


def _written(frame: wire.Encode, model: _Model) -> str:
    if frame.suffix is None:
        return frame.text
    infill = model.tokenizer.infill
    if infill is None:
        raise InvalidRequest("The model cannot fill in before a suffix.", param="suffix")
    return infill.join(frame.text, frame.suffix)


def _empty(frame: wire.Render | wire.Encode) -> InvalidRequest:
    if isinstance(frame, wire.Encode):
        return InvalidRequest("The prompt is empty.", param="prompt")
    return InvalidRequest("The messages make an empty prompt.", param="messages")


def _failure(job: int, error: InvalidRequest) -> wire.TextFailed:
    return wire.TextFailed(job, "invalid_request", str(error), error.param)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _end_on_error(encoding: Future[None]) -> None:
    error = encoding.exception()
    if error is not None:
        _end(error)


def _end(error: BaseException | None) -> None:
    """End the process after a fault of our own; its message stays untold, as it may quote text."""
    if error is not None:
        traceback.print_tb(error.__traceback__)
        sys.stderr.write(f"{type(error).__name__}\n")
    os._exit(1)


def main() -> None:
    """Serve the socket given on the command line until its other end closes."""
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.excepthook = lambda fault: _end(fault.exc_value)
    sock = socket.socket(fileno=int(sys.argv[1]))
    outbox = Outbox(sock)
    watch = TemplateWatch(outbox, limit_bytes=int(sys.argv[2]))
    renderer = Renderer(outbox, watch)
    threading.Thread(target=watch.watch, name="watch", daemon=True).start()
    threading.Thread(target=renderer.run, name="renderer", daemon=True).start()
    splitter, decoder = FrameSplitter(), wire.to_text_decoder()
    while data := sock.recv(2**18):
        for body in splitter.feed(data):
            renderer.receive(decoder.decode(body))
    os._exit(0)


if __name__ == "__main__":
    main()
