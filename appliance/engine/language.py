"""Serve a language model: read prompts beside the decode steps of everyone who runs."""

import time
from dataclasses import dataclass
from typing import cast

import mlx.core as mx
from mlx import nn

from appliance.chat.tokenizer import Tokenizer
from appliance.engine.body import Outcome
from appliance.engine.foreign import FOREIGN_ERRORS
from appliance.engine.prompt import Prompt, PromptReader
from appliance.engine.rows import Flight, Rows, Running
from appliance.engine.share import MemoryShare
from appliance.engine.wire import MemoryLimits, Row, Submit, TokenPrompt, WireError
from appliance.engine.wish import check_sampling
from appliance.errors import InvalidRequest, OutOfMemoryBudget
from appliance.scheduler.pace import Pace
from appliance.scheduler.room import columns_for, preemption_order, rows_for
from appliance.scheduler.sequence import Sequence

# An answer is expected to get this long, or as long as it may, when a place for it is sought.
_EXPECTED_TOKENS = 256
# Rings begin this much longer than the longest row.
_SPARE_COLUMNS = 32
# Where memory is short, prompts are read so many tokens at a time.
_LEAST_CHUNK = 32
# A batch this much larger than it need be is made smaller.
_WASTE = 2
# The tokens and the offset of a chunk.
_Read = tuple[int, int]
_UNSOUND = WireError("step_failed", "The model gave no usable numbers for this request.")


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

    One step queues the next decode step, then a chunk of a prompt, and only then waits for the
    decode step before: the device has work while tokens are read and sent.
    """

    waits_for_room = False

    def __init__(self, loaded: LanguageModel, max_sequences: int) -> None:
        self.tokenizer = loaded.tokenizer
        self.context_tokens = loaded.context_tokens
        self.footprint_bytes = loaded.share.footprint_bytes
        self.max_sequences = max_sequences
        self._vocab_size = loaded.vocab_size
        self._model = loaded.model
        self._rows = loaded.rows
        self._reader = loaded.reader
        self._share = loaded.share
        self._pace = loaded.pace
        self._flight: Flight | None = None
        self._joining: list[Prompt] = []
        self._coming: tuple[str, int] = ("", 0)
        self._chunks: tuple[_Read | None, _Read | None] = (None, None)
        self._landed_at: float | None = None

    def check(self, submit: Submit) -> int:
        """Return the number of ids; see Body."""
        if not isinstance(submit.prompt, TokenPrompt):
            raise InvalidRequest("A language model takes token ids, not text.", param="prompt")
        ids = submit.prompt.ids
        if not ids:
            raise InvalidRequest("The prompt is empty.", param="messages")
        if min(ids) < 0 or max(ids) >= self._vocab_size:
            raise InvalidRequest(
                f"The prompt has a token beyond the vocabulary of {self._vocab_size}.",
                param="messages",
            )
        check_sampling(submit, self._vocab_size)
        columns = columns_for(len(ids) + submit.max_tokens + _SPARE_COLUMNS)
        needed = self._share.needed_bytes(1, columns, [len(ids)], _LEAST_CHUNK)
        limit = self._share.limit_bytes
        if limit is not None and needed > limit:
            raise OutOfMemoryBudget(needed_bytes=needed, limit_bytes=limit)
        return len(ids)

    def has_room(self, submit: Submit, sequence: Sequence) -> bool:
        """Say whether one more sequence, with its expected answer, fits beside the others."""
        others = self._sequences()
        if not others:
            return True
        lengths = [_expected(*each) for each in (*others, (submit, sequence))]
        rows = rows_for(len(lengths), self.max_sequences)
        columns = columns_for(max(lengths) + _SPARE_COLUMNS)
        # As if everything were read: those who are let in must not be in each other's way later.
        cached = [prompt.length for prompt in (*self._reader.prompts(), *self._joining)]
        cached.append(sequence.prompt_tokens + len(sequence.produced))
        return self._share.fits(self._share.needed_bytes(rows, columns, cached, _LEAST_CHUNK))

    def insert(self, submit: Submit, sequence: Sequence) -> None:
        """Take one more sequence; its tokens are read in chunks by the next steps."""
        assert isinstance(submit.prompt, TokenPrompt)
        self._reader.add(submit, sequence, [*submit.prompt.ids, *sequence.produced])

    def remove(self, request_id: str) -> None:
        """Free a sequence in any phase."""
        self._take_out(request_id)
        if not len(self._rows) and self._flight is not None:
            mx.synchronize()  # what a step in flight holds is free only when it has ended
        self._drop_if_idle()

    def step(self) -> Outcome:
        """Queue a decode step and a chunk, and return the tokens of the decode step before."""
        outcome = Outcome()
        self._fit_rows(outcome)
        flight = self._rows.decode()
        landing, self._flight = self._flight, flight
        chunk = self._read(outcome, is_alone=flight is None and landing is None)
        before, self._chunks = self._chunks[0], (self._chunks[1], chunk)
        if landing is not None:
            self._land(landing, before, outcome)
        self._drop_if_idle()
        return outcome

    def idle_seconds(self) -> float | None:
        """Return 0 while there are sequences: a model always has the next step to do."""
        return 0.0 if len(self._rows) or len(self._reader) else None

    def reset(self) -> None:
        """Drop every sequence; what was too much for them stays known."""
        self._reader.clear()
        self._joining.clear()
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
        del self._rows, self._reader, self._model

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
        running.num_landed += 1
        if token in running.stop_ids:
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
        tokens, offset = before
        decode = self._pace.decode_seconds(rows)
        if decode is None:
            read = min(seconds, self._pace.chunk_seconds(tokens, offset))
        else:
            read = max(0.0, seconds - decode)
            if flight.is_steady and tokens:
                self._pace.note_chunk(tokens, offset, read)
        outcome.seconds["decode"] = seconds - read
        outcome.seconds["prefill"] = read

    def _read(self, outcome: Outcome, *, is_alone: bool) -> _Read | None:
        """Queue a chunk of the prompt whose turn it is, and let those that are done join."""
        prompt = self._reader.next_prompt()
        if prompt is None:
            return None
        rows = 0 if is_alone or self._rows.are_young else self._rows.size[0]
        tokens = self._pace.chunk_tokens(rows, prompt.num_read)
        affordable = self._affordable(prompt, tokens, outcome) if tokens else None
        if affordable is None or self._prepares(affordable, outcome):
            return None
        begin = time.perf_counter()
        chunk = self._reader.read(*affordable)
        if is_alone:
            mx.eval(chunk.arrays)
            outcome.seconds["prefill"] = time.perf_counter() - begin
            self._landed_at = None
            if chunk.tokens:
                self._pace.note_chunk(chunk.tokens, chunk.offset, outcome.seconds["prefill"])
        else:
            mx.async_eval(chunk.arrays)  # type: ignore[no-untyped-call]
        self._joining = chunk.done
        self._join(outcome)
        return chunk.tokens, chunk.offset

    def _join(self, outcome: Outcome) -> None:
        """Let the prompts that were read decode, those that memory allows."""
        while self._joining:
            if not self._rows.has_place(self._joining[0].length):
                self._fit(outcome)
            if not self._joining:
                return
            prompt = self._joining.pop(0)
            own = () if prompt.submit.ignore_eos else self.tokenizer.eos_token_ids
            stop_ids = {*own, *prompt.submit.stop_token_ids}
            running = Running(
                prompt.submit,
                prompt.sequence,
                frozenset(token for token in stop_ids if token < self._vocab_size),
                len(prompt.sequence.produced),
            )
            self._rows.join(running, prompt)

    def _fit_rows(self, outcome: Outcome) -> None:
        """Give the batch room for one more token a row, and no more than it needs or may have."""
        if not len(self._rows):
            return
        size, (rows, columns) = self._rows.size, self._size_for()
        is_full = self._rows.longest >= size[1]
        is_wasteful = rows * columns * _WASTE <= size[0] * size[1]
        if is_full or is_wasteful or not self._fits(size, self._cached(), 0):
            self._fit(outcome)

    def _prepares(self, reading: tuple[Prompt, int], outcome: Outcome) -> bool:
        """Make the batch large enough for a prompt that is about to be done, in a step of its own.

        Those who run would else wait for the last chunk and for the larger batch at once.
        """
        prompt, tokens = reading
        is_last = prompt.num_read and prompt.remaining <= tokens
        if not is_last or not len(self._rows) or self._rows.has_place(prompt.length):
            return False
        self._coming = (prompt.submit.id, prompt.length)
        self._fit(outcome)
        return True

    def _fit(self, outcome: Outcome) -> None:
        """Make the batch as large as it should be, sending back whoever there is no memory for."""
        while not self._fits(self._size_for(), self._cached(), 0):
            mx.clear_cache()
            if not self._preempt_one(outcome):
                break
        size = self._size_for()
        if size != self._rows.size and (len(self._rows) or self._joining):
            self._rows.reshape(*size)

    def _shrink(self) -> bool:
        """Make the batch no larger than it should be; False if it is not."""
        (rows, columns), size = self._size_for(), self._rows.size
        if not len(self._rows) or rows * columns >= size[0] * size[1]:
            return False
        self._rows.reshape(rows, columns)
        return True

    def _affordable(
        self, prompt: Prompt, tokens: int, outcome: Outcome
    ) -> tuple[Prompt, int] | None:
        """Return a prompt and how many tokens of it can be read within the share.

        Sequences are sent back to wait if nothing can, perhaps the prompt itself: then another
        is returned, or None if no other is left.
        """
        while not self._fits(self._rows.size, [*self._cached(), prompt.num_read + tokens], tokens):
            if tokens > _LEAST_CHUNK:
                tokens = max(tokens // 2, _LEAST_CHUNK)
            elif not self._shrink() and not self._preempt_one(outcome):
                break
            if prompt.submit.id not in self._reader:
                following = self._reader.next_prompt()
                if following is None:
                    return None
                prompt = following
        return prompt, tokens

    def _fits(self, size: tuple[int, int], cached: list[int], chunk_tokens: int) -> bool:
        return self._share.fits(self._share.needed_bytes(*size, cached, chunk_tokens))

    def _size_for(self) -> tuple[int, int]:
        """Return the rows for all who run, join or are read, and columns for those who run or join
        or come next."""
        count = len(self._rows) + len(self._joining) + len(self._reader)
        lengths = [self._rows.longest, *(prompt.length for prompt in self._joining)]
        coming, length = self._coming
        if coming in self._reader:
            lengths.append(length)
        return rows_for(max(1, count), self.max_sequences), columns_for(
            max(lengths) + _SPARE_COLUMNS
        )

    def _preempt_one(self, outcome: Outcome) -> bool:
        """Send the sequence that can best wait back; False if there is but one."""
        sequences = [sequence for _, sequence in self._sequences()]
        if len(sequences) < 2:
            return False
        victim = preemption_order(sequences)[0]
        outcome.preempted.append(victim.id)
        self._take_out(victim.id)
        return True

    def _take_out(self, request_id: str) -> None:
        joining = [prompt for prompt in self._joining if prompt.submit.id == request_id]
        if joining:
            self._joining.remove(joining[0])
        elif request_id in self._reader:
            self._reader.remove(request_id)
        else:
            running = self._rows.running()
            self._rows.leave(next(each for each in running if each.submit.id == request_id))

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

    def _sequences(self) -> list[tuple[Submit, Sequence]]:
        """Return everything inside, whatever its phase."""
        decoding = [(each.submit, each.sequence) for each in self._rows.running()]
        prompts = (*self._reader.prompts(), *self._joining)
        return decoding + [(prompt.submit, prompt.sequence) for prompt in prompts]

    def _cached(self) -> list[int]:
        """Return how many tokens each prompt cache holds."""
        return [prompt.num_read for prompt in (*self._reader.prompts(), *self._joining)]


def _expected(submit: Submit, sequence: Sequence) -> int:
    """Return how long a sequence will probably get, in tokens."""
    asked = min(submit.max_tokens, len(sequence.produced) + _EXPECTED_TOKENS)
    return sequence.prompt_tokens + asked
