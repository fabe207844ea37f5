"""Serve a language model: read prompts beside the decode steps of everyone who runs."""

import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from typing import NamedTuple, cast

import mlx.core as mx
from mlx import nn

from appliance.chat.tokenizer import Tokenizer
from appliance.constraints.words import Words
from appliance.engine.body import Outcome
from appliance.engine.foreign import FOREIGN_ERRORS
from appliance.engine.guidance import Guidance
from appliance.engine.prompt import PromptReader
from appliance.engine.rows import Flight, Rows, Running
from appliance.engine.share import MemoryShare
from appliance.engine.space import Space
from appliance.engine.wire import MemoryLimits, Row, Submit, TokenPrompt, WireError
from appliance.engine.wish import check_sampling
from appliance.errors import InvalidRequest, OutOfMemoryBudget
from appliance.scheduler.pace import Pace
from appliance.scheduler.sequence import Sequence

_UNSOUND = WireError("step_failed", "The model gave no usable numbers for this request.")


def _stuck(running: Running) -> WireError:
    reason = running.guide.error if running.guide is not None else ""
    return WireError("step_failed", f"The answer's grammar leads nowhere: {reason or 'no token'}.")


class _Read(NamedTuple):
    """The tokens and the offset of a chunk, and whether it was the first of its shape."""

    tokens: int
    offset: int
    is_new_shape: bool


@dataclass(frozen=True)
class LanguageModel:
    """A model in memory with everything that steps it."""

    model: nn.Module
    tokenizer: Tokenizer
    context_tokens: int
    vocab_size: int
    rows: Rows
    reader: PromptReader
    share: MemoryShare
    pace: Pace


class LanguageBody:
    """A Body over one language model. Engine thread only.

    With `runs_ahead` one step queues the next decode step, then a chunk of a prompt, and only then
    waits for the decode step before: the device has work while tokens are read and sent.
    """

    waits_for_room = False

    def __init__(self, loaded: LanguageModel, max_sequences: int, *, runs_ahead: bool) -> None:
        self.tokenizer = loaded.tokenizer
        self.context_tokens = loaded.context_tokens
        self.footprint_bytes = loaded.share.footprint_bytes
        self.max_sequences = max_sequences
        self._vocab_size = loaded.vocab_size
        self._guidance = Guidance(loaded.tokenizer, loaded.vocab_size)
        self._model = loaded.model
        self._rows = loaded.rows
        self._reader = loaded.reader
        self._share = loaded.share
        self._pace = loaded.pace
        self._flight: Flight | None = None
        self._space = Space(loaded.rows, loaded.reader, loaded.share, max_sequences)
        self._chunks: tuple[_Read | None, _Read | None] = (None, None)
        self._landed_at: float | None = None
        self._in_turns = not runs_ahead
        self._has_read = False

    def prepare(self, submit: Submit, wake: Callable[[], None]) -> bool:
        """Say whether a request's grammar is compiled; see Body."""
        return self._guidance.prepare(submit, wake)

    def check(self, submit: Submit) -> int:
        """Return the number of ids; see Body."""
        if not isinstance(submit.prompt, TokenPrompt):
            raise InvalidRequest("A language model takes token ids, not text.", param="prompt")
        ids = submit.prompt.ids
        if not ids:
            raise InvalidRequest("The prompt is empty.", param="prompt")
        if min(ids) < 0 or max(ids) >= self._vocab_size:
            raise InvalidRequest(
                f"The prompt has a token beyond the vocabulary of {self._vocab_size}.",
                param="prompt",
            )
        check_sampling(submit, self._vocab_size)
        self._guidance.check(submit)
        needed = self._space.lone_bytes(len(ids), submit.max_tokens)
        limit = self._share.limit_bytes
        if limit is not None and needed > limit:
            raise OutOfMemoryBudget(needed_bytes=needed, limit_bytes=limit)
        return len(ids)

    def has_room(self, submit: Submit, sequence: Sequence) -> bool:
        """Say whether one more sequence, with its expected answer, fits beside the others."""
        return self._space.has_room(submit, sequence)

    def insert(self, submit: Submit, sequence: Sequence) -> None:
        """Take one more sequence; its tokens are read in chunks by the next steps."""
        assert isinstance(submit.prompt, TokenPrompt)
        self._reader.add(submit, sequence, [*submit.prompt.ids, *sequence.produced])

    def remove(self, request_id: str) -> None:
        """Free a sequence in any phase."""
        self._space.take_out(request_id)
        if not len(self._rows) and self._flight is not None:
            mx.synchronize()  # what a step in flight holds is free only when it has ended
        self._drop_if_idle()

    def step(self) -> Outcome:
        """Decode a token of every row, read a chunk, or both; return the tokens that came."""
        outcome = Outcome()
        if self._in_turns and (len(self._reader) or self._has_read):
            self._step_in_turns(outcome)
        else:
            self._step_ahead(outcome)
        self._drop_if_idle()
        return outcome

    def _step_ahead(self, outcome: Outcome) -> None:
        """Queue a decode step and a chunk, and take the tokens of the decode step before."""
        self._space.fit_rows(outcome)
        if self._flight is not None and not self._can_run_ahead():
            mx.eval(self._flight.sampled.tokens)
        is_first = self._flight is None
        flight = self._decode(outcome)
        landing, self._flight = self._flight, flight
        if is_first and flight is not None and not flight.is_steady:
            # Who begins waits for nobody: the first tokens are taken before a step is queued ahead.
            landing, self._flight = flight, None
        is_alone = flight is None and landing is None
        chunk = self._read(outcome, is_alone=is_alone, waits=is_alone)
        before, self._chunks = self._chunks[0], (self._chunks[1], chunk)
        if landing is not None:
            self._land(landing, before, outcome)

    def _can_run_ahead(self) -> bool:
        """Say whether a step may be queued while the one before it runs.

        Whatever is written that a running step still reads, MLX copies: some layers for the next
        column, and all of the batch for a row that joins.
        """
        return self._rows.is_steady and self._space.affords_copy()

    def _step_in_turns(self, outcome: Outcome) -> None:
        """Do one thing and wait for it: take what is in flight, decode, or read a chunk.

        Where arrays are computed as they are queued, tokens would else wait for a chunk.
        """
        flight, self._flight = self._flight, None
        begin = time.perf_counter()
        if flight is None and self._has_read:
            self._space.fit_rows(outcome)
            flight = self._decode(outcome)
        self._has_read = flight is None
        if flight is None:
            self._read(outcome, is_alone=not len(self._rows), waits=True)
        else:
            self._land(flight, None, outcome)
            outcome.seconds["decode"] = time.perf_counter() - begin
            if flight.is_steady:
                self._pace.note_decode(len(flight.rows), outcome.seconds["decode"])
        self._landed_at = None
        self._chunks = (None, None)

    def idle_seconds(self) -> float | None:
        """Return 0 while there are sequences: a model always has the next step to do."""
        return 0.0 if len(self._rows) or len(self._reader) else None

    def reset(self) -> None:
        """Drop every sequence; what was too much for them stays known."""
        self._reader.clear()
        self._space.joining.clear()
        self._rows.clear()
        self._forget_step()
        mx.clear_cache()

    def works(self) -> bool:
        """Try the smallest step there is."""
        try:
            mx.eval(self._model(mx.zeros((1, 1), mx.int32)))
        except FOREIGN_ERRORS:
            return False
        return True

    def give_way(self) -> None:
        """Take what is in use now as too much."""
        self._share.lower()

    def set_limits(self, limits: MemoryLimits) -> None:
        """Keep to a new memory share."""
        self._share.set_limits(limits)

    def memory_bytes(self) -> int:
        """Return the bytes MLX has in use in this process."""
        return int(mx.get_active_memory())

    def close(self) -> None:
        """Free the model."""
        self.reset()
        self._guidance.close()
        del self._rows, self._reader, self._model

    def _decode(self, outcome: Outcome) -> Flight | None:
        """Queue a decode step; if rows have guides, take the tokens of the one before in between.

        Only these say what may come next. That is found out in another thread, while this one
        queues, and the device computes, how likely everything is.
        """
        if not self._rows.are_guided:
            return self._rows.decode()
        places = self._rows.places()
        coming = self._guidance.foresee(places, self._flight)
        try:
            return self._rows.decode(lambda: self._allow(places, coming.result(), outcome))
        finally:
            wait([coming])

    def _allow(
        self, places: list[Running | None], words: Words, outcome: Outcome
    ) -> mx.array | None:
        """Return the masks of the next tokens, having taken those in flight."""
        flight, self._flight = self._flight, None
        if flight is not None:
            self._land(flight, self._chunks[0], outcome)
        for running, row in zip(places, words, strict=True):
            if running is not None and not running.is_gone and not row.any():
                outcome.ends[running.submit.id] = _stuck(running)
                self._rows.leave(running)
        return mx.array(words)

    def _land(self, flight: Flight, before: _Read | None, outcome: Outcome) -> None:
        """Read a flight's tokens, waiting for them, and let those that end leave."""
        tokens = cast(list[int], flight.sampled.tokens.tolist())
        is_sound = cast(list[bool], flight.sampled.is_sound.tolist())
        self._note_time(flight, before, outcome)
        for index, running in enumerate(flight.rows):
            if running is None or running.is_gone:
                continue
            if is_sound[index]:
                self._take(running, flight, index, tokens[index], outcome)
            else:
                outcome.ends[running.submit.id] = _UNSOUND
            if running.submit.id in outcome.ends:
                self._rows.leave(running)

    def _take(
        self, running: Running, flight: Flight, index: int, token: int, outcome: Outcome
    ) -> None:
        submit = running.submit
        row = Row(submit.id, "", 1, [token])
        if submit.logprobs is not None:
            row.logprobs = [flight.sampled.logprob(index, submit.logprobs)]
        outcome.rows.append(row)
        if running.take(token):
            outcome.ends[submit.id] = "stop"
        elif running.num_landed == submit.max_tokens:
            outcome.ends[submit.id] = "length"

    def _note_time(self, flight: Flight, before: _Read | None, outcome: Outcome) -> None:
        """Note what this step took: `before` is the chunk that was queued just before it."""
        now = time.perf_counter()
        since, self._landed_at = self._landed_at, now
        if since is None:
            return
        seconds, rows = now - since, len(flight.rows)
        if before is None:
            outcome.seconds["decode"] = seconds
            if flight.is_steady:
                self._pace.note_decode(rows, seconds)
            return
        decode = self._pace.decode_seconds(rows)
        if decode is None:
            read = min(seconds, self._pace.chunk_seconds(before.tokens, before.offset))
        else:
            read = max(0.0, seconds - decode)
            if flight.is_steady:
                self._note_chunk(before, read)
        outcome.seconds["decode"] = seconds - read
        outcome.seconds["prefill"] = read

    def _read(self, outcome: Outcome, *, is_alone: bool, waits: bool) -> _Read | None:
        """Queue a chunk of the prompt whose turn it is, and let those that are done join.

        `is_alone`: nobody is held up by it; `waits`: it is computed when this returns.
        """
        prompt = self._reader.next_prompt()
        if prompt is None:
            return None
        is_free = is_alone or self._rows.are_young
        if not (is_free or self._in_turns or self._rows.is_settled):
            return None  # the first step of a batch of new size takes longer by itself
        rows = 0 if is_free else self._rows.size[0]
        tokens = self._pace.chunk_tokens(rows, prompt.num_read)
        affordable = self._space.affordable(prompt, tokens, outcome) if tokens else None
        if affordable is None or self._space.prepares(affordable, outcome):
            return None
        begin = time.perf_counter()
        chunk = self._reader.read(*affordable)
        made = _Read(chunk.tokens, chunk.offset, chunk.is_new_shape)
        if waits:
            mx.eval(chunk.arrays)
            outcome.seconds["prefill"] = time.perf_counter() - begin
            self._landed_at = None
            self._note_chunk(made, outcome.seconds["prefill"])
        else:
            mx.async_eval(chunk.arrays)  # type: ignore[no-untyped-call]
        # The longest first, so that nobody's columns wrap round the end of the new batch.
        self._space.joining = sorted(chunk.done, key=lambda prompt: -prompt.length)
        self._join(outcome)
        return made

    def _note_chunk(self, read: _Read, seconds: float) -> None:
        if read.tokens:
            self._pace.note_chunk(read.tokens, read.offset, seconds, is_new_shape=read.is_new_shape)

    def _join(self, outcome: Outcome) -> None:
        """Let the prompts that were read decode, those that memory allows."""
        while self._space.joining:
            if not self._rows.has_place(self._space.joining[0].length):
                self._space.fit(outcome)
            if not self._space.joining:
                return
            prompt = self._space.joining.pop(0)
            own = () if prompt.submit.ignore_eos else self.tokenizer.eos_token_ids
            stop_ids = {*own, *prompt.submit.stop_token_ids}
            running = Running(
                prompt.submit,
                prompt.sequence,
                frozenset(token for token in stop_ids if token < self._vocab_size),
                len(prompt.sequence.produced),
                self._guidance.guide(prompt.submit, prompt.sequence.produced),
            )
            self._rows.join(running, prompt)

    def _drop_if_idle(self) -> None:
        """Free the batch when nobody is in it, and forget what was too much when nobody is left."""
        if len(self._rows):
            return
        if self._rows.size[0]:
            self._rows.clear()
        self._forget_step()
        if not len(self._reader):
            self._share.restore()

    def _forget_step(self) -> None:
        self._flight = self._landed_at = None
        self._chunks = (None, None)
