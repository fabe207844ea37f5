"""Render prompts in the text process, and keep that process alive: the gateway's side."""

import asyncio
import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from appliance.channel import Channel, spawn_child
from appliance.chat import wire
from appliance.chat.job import Answer, Job
from appliance.chat.request import ChatRequest
from appliance.chat.traits import Traits
from appliance.errors import (
    ApplianceError,
    ContextTooLong,
    InvalidRequest,
    ModelNotReady,
    SourceError,
    TextProcessFailed,
)

_CLOSE_SECONDS = 2.0
_DELAYS_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_MOST_DEATHS = 2

log = structlog.get_logger()


class Rendered(NamedTuple):
    """A prompt: its token ids, never empty, and the last 256 characters of its text."""

    ids: list[int]
    tail: str


class TextProcess:
    """The text process as the gateway sees it. Event loop only; nothing here blocks the loop.

    A template that runs longer than `time_limit` seconds costs the process; so does one that
    takes `memory_limit` bytes or more. A process that ends is started again, gets every model and
    every unanswered request again; a request that was being worked on in two processes that died
    fails with TextProcessFailed.
    """

    def __init__(self, *, time_limit: float = 5.0, memory_limit: int = 2 * 2**30) -> None:
        self._time_limit = time_limit
        self._memory_limit = memory_limit
        self._numbers = itertools.count(1)
        self._jobs: dict[int, Job] = {}
        self._models: dict[str, wire.Configure] = {}
        self._traits: dict[str, Traits] = {}
        self._faults: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._closing = asyncio.Event()
        self._restarting: asyncio.Task[None] | None = None
        self._killed = False
        self._deaths_in_row = 0
        self._num_restarts = 0

    @property
    def pid(self) -> int | None:
        """The process id; None while there is no process."""
        return self._process.pid if self._process is not None else None

    @property
    def num_restarts(self) -> int:
        """How often a process that ended was replaced."""
        return self._num_restarts

    async def start(self) -> None:
        """Start the process; raises OSError if the machine cannot."""
        process, sock = await asyncio.to_thread(
            spawn_child, "appliance.chat.process", str(self._memory_limit)
        )
        self._process = process
        self._channel = Channel(wire.from_text_decoder(), self._on_message, self._on_lost)
        await self._channel.open(sock)
        for frame in self._models.values():
            if frame.job not in self._jobs:
                self._jobs[frame.job] = Job.of(frame, is_repeated=True)
            self._send(frame)
        for job in self._jobs.values():
            if not isinstance(job.frame, wire.Configure):
                self._send(job.frame)

    async def close(self) -> None:
        """End the process, failing what still waits with TextProcessFailed. Idempotent."""
        self._closing.set()
        if self._restarting is not None:
            await self._restarting
        for job in self._jobs.values():
            job.fail(TextProcessFailed("The text process was closed."))
        self._jobs.clear()
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            await asyncio.to_thread(_reap, self._process, _CLOSE_SECONDS)
            self._process = None

    async def configure(self, model: str, directory: Path, template_file: Path | None) -> None:
        """Load the model's tokenizer and templates; `template_file` replaces the folder's own.

        Returns when renders can be answered. Raises SourceError if the files are no good; the
        model is unknown then. The same model can be configured again at any time.
        """
        self._withdraw(model)
        frame = wire.Configure(
            next(self._numbers),
            model,
            str(directory),
            str(template_file) if template_file is not None else None,
        )
        self._models[model] = frame
        await self._answer(frame)

    async def forget(self, model: str) -> None:
        """Free what the model took; an unknown one is ignored."""
        self._withdraw(model)
        self._send(wire.Forget(model))

    def traits(self, model: str) -> Traits:
        """Return what a configured model's template can show; raises ModelNotReady."""
        traits = self._traits.get(model)
        if traits is None:
            raise self._not_ready(model)
        return traits

    async def render(
        self,
        model: str,
        request: ChatRequest,
        *,
        defaults: dict[str, Any] | None = None,
        limit_tokens: int | None = None,
    ) -> Rendered:
        """Return the prompt of a configured model for the request's messages: at most the limit.

        Messages, tools and thoughts are written as its template wants them. `defaults` are values
        for the template that any wish of the request goes before.
        Raises InvalidRequest if the model's template refuses the messages, fails, or takes too
        long, ContextTooLong (most often without counting to the end), ModelNotReady if the model
        is not configured, TextProcessFailed. When cancelled the work on it ends, too.
        """
        answer = await self._ask(
            wire.Render(
                next(self._numbers),
                model,
                request.messages,
                request.tools if request.tool_choice.mode != "none" else (),
                request.thinking,
                request.template_kwargs,
                defaults or {},
                limit_tokens,
            )
        )
        assert isinstance(answer, wire.Rendered)
        return Rendered(answer.ids, answer.tail)

    async def encode(
        self,
        model: str,
        text: str,
        *,
        suffix: str | None = None,
        adds_special: bool = True,
        limit_tokens: int | None = None,
    ) -> list[int]:
        """Return the ids of `text` as it stands, never none; raises as `render` does.

        With `suffix` they ask for what stands between `text` and it; InvalidRequest names `suffix`
        if the tokenizer has no tokens for that. `adds_special`: with what the tokenizer puts before
        or behind a text of its own accord.
        """
        number = next(self._numbers)
        frame = wire.Encode(number, model, text, suffix, adds_special, limit_tokens)
        answer = await self._ask(frame)
        assert isinstance(answer, wire.Rendered)
        return answer.ids

    async def decode(self, model: str, ids: Sequence[int]) -> str:
        """Return the text of `ids`, with that of special tokens.

        Raises InvalidRequest, which names the place as `tokens[N]`, if there is no such token;
        ModelNotReady; TextProcessFailed.
        """
        return "".join(await self._decode(model, ids, is_apart=False))

    async def pieces(self, model: str, ids: Sequence[int]) -> list[str]:
        """Return the text of each of `ids`; half a character reads as U+FFFD. Raises as `decode`.

        Put together they need not be `decode` of all: some tokenizers drop a space at the start.
        """
        return await self._decode(model, ids, is_apart=True)

    async def _decode(self, model: str, ids: Sequence[int], *, is_apart: bool) -> list[str]:
        frame = wire.Decode(next(self._numbers), model, list(ids), is_apart)
        answer = await self._ask(frame)
        assert isinstance(answer, wire.Decoded)
        return answer.texts

    async def _ask(self, frame: wire.TextJob) -> Answer:
        if frame.model not in self._models:
            raise self._not_ready(frame.model)
        try:
            msgspec.msgpack.encode(frame)
        except (OverflowError, UnicodeEncodeError, RecursionError) as error:
            raise InvalidRequest(
                "A number or text in the request cannot be represented."
            ) from error
        try:
            return await self._answer(frame)
        except asyncio.CancelledError:
            self._send(wire.Cancel(frame.job))
            raise

    async def _answer(self, frame: wire.Configure | wire.TextJob) -> Answer:
        job = self._jobs[frame.job] = Job.of(frame)
        self._send(frame)
        return await job.answer

    def _not_ready(self, model: str) -> ModelNotReady:
        return ModelNotReady(model, self._faults.get(model, "its tokenizer is not loaded"))

    def _overdue(self, job: Job) -> ApplianceError:
        limit = f"{self._time_limit:g} s"
        if isinstance(job.frame, wire.Configure):
            source = job.frame.template_file or job.frame.directory
            return SourceError(source, f"its chat template takes over {limit} to compile and try")
        reason = f"The chat template took longer than its time limit of {limit}."
        return InvalidRequest(reason, param="messages")

    def _send(self, frame: wire.ToText) -> None:
        # Without a process nothing is lost: a new one gets everything that has no answer.
        if self._channel is not None:
            self._channel.send(frame)

    def _withdraw(self, model: str) -> None:
        """Drop a model; a load still under way keeps its entry, and so its time limit."""
        frame = self._models.pop(model, None)
        self._traits.pop(model, None)
        self._faults.pop(model, None)
        job = self._jobs.get(frame.job) if frame is not None else None
        if job is not None and not job.answer.done():
            reason = "it was forgotten or configured anew while its tokenizer loaded"
            job.answer.set_exception(ModelNotReady(model, reason))

    def _fail(self, job: Job, error: ApplianceError) -> None:
        """Answer with `error`; a model whose load failed is gone, and says why from now on."""
        frame = job.frame
        if isinstance(frame, wire.Configure) and self._models.get(frame.model) is frame:
            del self._models[frame.model]
            self._traits.pop(frame.model, None)
            self._faults[frame.model] = str(error)
            if job.is_repeated:
                log.error("tokenizer_lost", model=frame.model, reason=str(error))
        job.fail(error)

    def _on_message(self, message: wire.FromText) -> None:
        job = self._jobs.get(message.job)
        match message:
            case wire.Started():
                if job is not None:
                    loop = asyncio.get_running_loop()
                    job.started = True
                    job.clock = loop.call_later(self._time_limit, self._on_overdue, job)
            case wire.Stopped():
                if job is not None:
                    job.stop_clock()
            case wire.Configured(fault=wire.Fault(source=source, reason=reason)):
                self._on_failure(job, SourceError(source, reason))
            case wire.TooLong() | wire.TextFailed():
                if job is not None:
                    self._on_failure(job, self._render_error(job.frame.model, message))
            case wire.Configured() | wire.Rendered() | wire.Decoded():
                self._deaths_in_row = 0
                if job is not None:
                    self._on_success(job, message)

    def _render_error(self, model: str, message: wire.TooLong | wire.TextFailed) -> ApplianceError:
        match message:
            case wire.TooLong():
                return ContextTooLong(
                    limit_tokens=message.limit_tokens,
                    prompt_tokens=message.prompt_tokens,
                    is_at_least=message.is_at_least,
                )
            case wire.TextFailed(kind="invalid_request"):
                return InvalidRequest(message.message, param=message.param)
            case _:
                return ModelNotReady(model, self._faults.get(model, message.message))

    def _on_success(self, job: Job, answer: Answer) -> None:
        frame = job.frame
        if isinstance(answer, wire.Configured) and self._models.get(frame.model) is frame:
            self._traits[frame.model] = answer.traits
        del self._jobs[frame.job]
        job.succeed(answer)

    def _on_failure(self, job: Job | None, error: ApplianceError) -> None:
        if job is None:
            return
        if job.clock is not None:
            # An answer while the template still runs: the process ends itself, for this job alone.
            self._killed = True
        del self._jobs[job.frame.job]
        self._fail(job, error)

    def _on_overdue(self, job: Job) -> None:
        self._on_failure(job, self._overdue(job))
        if self._process is not None:
            self._process.kill()

    def _on_lost(self) -> None:
        self._channel = None
        for job in self._jobs.values():
            job.stop_clock()
        if not self._closing.is_set():
            self._restarting = asyncio.create_task(self._restart())

    async def _restart(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(_reap, process, 0.0)
        if not self._killed:
            self._deaths_in_row += 1
            self._blame()
        self._forget_abandoned()
        while not self._closing.is_set():
            await self._back_off()
            try:
                await self.start()
            except OSError:
                self._deaths_in_row += 1
                log.exception("text_process_not_started")
            else:
                self._num_restarts += 1
                killed, self._killed = self._killed, False
                log.warning(
                    "text_process_restarted",
                    killed=killed,
                    restarts=self._num_restarts,
                )
                return

    def _blame(self) -> None:
        """Count a death for what was being worked on; if that was nothing, for all that is new."""
        jobs = list(self._jobs.values())
        started = [job for job in jobs if job.started]
        for job in started or [job for job in jobs if not job.is_repeated]:
            job.deaths += 1
            if job.deaths >= _MOST_DEATHS:
                self._fail(job, TextProcessFailed("The process that renders prompts died twice."))

    def _forget_abandoned(self) -> None:
        self._jobs = {number: job for number, job in self._jobs.items() if not job.answer.done()}
        for job in self._jobs.values():
            job.started = False

    async def _back_off(self) -> None:
        if self._deaths_in_row == 0:
            return
        delay = _DELAYS_SECONDS[min(self._deaths_in_row, len(_DELAYS_SECONDS)) - 1]
        try:
            async with asyncio.timeout(delay):
                await self._closing.wait()
        except TimeoutError:
            pass


def _reap(process: subprocess.Popen[bytes], patience_seconds: float) -> None:
    try:
        process.wait(patience_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
