"""Give the batch and the prompts what memory there is, and send back who there is none for."""

import mlx.core as mx

from appliance.engine.body import Outcome
from appliance.engine.prompt import Prompt, PromptReader
from appliance.engine.rows import Rows
from appliance.engine.share import MemoryShare
from appliance.engine.wire import Submit
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


class Space:
    """Everything inside a body, by the memory it takes. Engine thread only.

    `joining` are prompts that were read and have no row yet. Whoever is sent back is named in the
    step's outcome.
    """

    def __init__(
        self, rows: Rows, reader: PromptReader, share: MemoryShare, max_sequences: int
    ) -> None:
        self.joining: list[Prompt] = []
        self._rows = rows
        self._reader = reader
        self._share = share
        self._max_sequences = max_sequences
        self._coming: tuple[str, int] = ("", 0)

    def lone_bytes(self, prompt_tokens: int, max_tokens: int) -> int:
        """Return what a sequence needs when it is alone."""
        columns = columns_for(prompt_tokens + max_tokens + _SPARE_COLUMNS)
        return self._share.needed_bytes(1, columns, [prompt_tokens], _LEAST_CHUNK)

    def has_room(self, submit: Submit, sequence: Sequence) -> bool:
        """Say whether one more sequence, with its expected answer, fits beside the others."""
        others = self.sequences()
        if not others:
            return True
        lengths = [_expected(*each) for each in (*others, (submit, sequence))]
        rows = rows_for(len(lengths), self._max_sequences)
        columns = columns_for(max(lengths) + _SPARE_COLUMNS)
        # As if everything were read: those who are let in must not be in each other's way later.
        cached = [prompt.length for prompt in (*self._reader.prompts(), *self.joining)]
        cached.append(sequence.prompt_tokens + len(sequence.produced))
        return self._share.fits(self._share.needed_bytes(rows, columns, cached, _LEAST_CHUNK))

    def fit_rows(self, outcome: Outcome) -> None:
        """Give the batch room for one more token a row, and no more than it needs or may have."""
        if not len(self._rows):
            return
        size, (rows, columns) = self._rows.size, self._size_for()
        is_full = self._rows.longest >= size[1]
        is_wasteful = rows * columns * _WASTE <= size[0] * size[1]
        if is_full or is_wasteful or not self._fits(size, self._cached(), 0):
            self.fit(outcome)

    def prepares(self, reading: tuple[Prompt, int], outcome: Outcome) -> bool:
        """Make the batch large enough for a prompt that is about to be done, in a step of its own.

        Those who run would else wait for the last chunk and for the larger batch at once.
        """
        prompt, tokens = reading
        is_last = prompt.num_read and prompt.remaining <= tokens
        if not is_last or not len(self._rows) or self._rows.has_place(prompt.length):
            return False
        self._coming = (prompt.submit.id, prompt.length)
        self.fit(outcome)
        return True

    def fit(self, outcome: Outcome) -> None:
        """Make the batch as large as it should be, sending back whoever there is no memory for."""
        while not self._fits(self._size_for(), self._cached(), 0):
            mx.clear_cache()
            if not self._preempt_one(outcome):
                break
        size = self._size_for()
        if size != self._rows.size and (len(self._rows) or self.joining):
            self._reshape(size)

    def affordable(
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

    def affords_copy(self) -> bool:
        """Say whether the batch may be held twice."""
        return self._affords(self._share.batch_bytes(*self._rows.size), self._rows.size)

    def take_out(self, request_id: str) -> None:
        """Free a sequence in any phase; it must be inside."""
        joining = [prompt for prompt in self.joining if prompt.submit.id == request_id]
        if joining:
            self.joining.remove(joining[0])
        elif request_id in self._reader:
            self._reader.remove(request_id)
        else:
            running = self._rows.running()
            self._rows.leave(next(each for each in running if each.submit.id == request_id))

    def sequences(self) -> list[tuple[Submit, Sequence]]:
        """Return everything inside, whatever its phase."""
        decoding = [(each.submit, each.sequence) for each in self._rows.running()]
        prompts = (*self._reader.prompts(), *self.joining)
        return decoding + [(prompt.submit, prompt.sequence) for prompt in prompts]

    def _shrink(self) -> bool:
        """Make the batch no larger than it should be; False if it is not."""
        (rows, columns), size = self._size_for(), self._rows.size
        if not len(self._rows) or rows * columns >= size[0] * size[1]:
            return False
        self._reshape((rows, columns))
        return True

    def _reshape(self, size: tuple[int, int]) -> None:
        is_tight = not self._affords(self._share.batch_bytes(*self._rows.size), size)
        self._rows.reshape(*size, coming=max(self._coming_lengths()), is_tight=is_tight)

    def _fits(self, size: tuple[int, int], cached: list[int], chunk_tokens: int) -> bool:
        return self._share.fits(self._share.needed_bytes(*size, cached, chunk_tokens))

    def _size_for(self) -> tuple[int, int]:
        """Return the rows for all who run, join or are read, and columns for those who run or join
        or come next."""
        count = len(self._rows) + len(self.joining) + len(self._reader)
        lengths = [self._rows.longest, *self._coming_lengths()]
        return rows_for(max(1, count), self._max_sequences), columns_for(
            max(lengths) + _SPARE_COLUMNS
        )

    def _coming_lengths(self) -> list[int]:
        """Return the tokens of those who join now or next, and 0."""
        lengths = [0, *(prompt.length for prompt in self.joining)]
        coming, length = self._coming
        return [*lengths, length] if coming in self._reader else lengths

    def _affords(self, more_bytes: int, size: tuple[int, int]) -> bool:
        """Say whether so many bytes fit beside a batch of that size and the prompts' caches."""
        return self._share.fits(self._share.needed_bytes(*size, self._cached(), 0) + more_bytes)

    def _preempt_one(self, outcome: Outcome) -> bool:
        """Send the sequence that can best wait back; False if there is but one."""
        sequences = [sequence for _, sequence in self.sequences()]
        if len(sequences) < 2:
            return False
        victim = preemption_order(sequences)[0]
        outcome.preempted.append(victim.id)
        self.take_out(victim.id)
        return True

    def _cached(self) -> list[int]:
        """Return how many tokens each prompt cache holds."""
        return [prompt.num_read for prompt in (*self._reader.prompts(), *self.joining)]


def _expected(submit: Submit, sequence: Sequence) -> int:
    """Return how long a sequence will probably get, in tokens."""
    asked = min(submit.max_tokens, len(sequence.produced) + _EXPECTED_TOKENS)
    return sequence.prompt_tokens + asked
