"""Step one sequence at a time, for models whose prompt caches cannot be batched."""

import time
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache

from appliance.engine.body import Outcome
from appliance.engine.mlx_body import LoadedModel, MlxBody
from appliance.engine.sampler import make_sampler
from appliance.engine.wire import EngineSettings, MemoryLimits, Row, Submit, TokenPrompt


class SequentialBody(MlxBody):
    """A Body with a single slot over mlx-lm's one-row step. Engine thread only."""

    def __init__(self, loaded: LoadedModel, engine: EngineSettings, limits: MemoryLimits) -> None:
        super().__init__(loaded, engine, limits)
        self.max_sequences = 1
        self._submit: Submit | None = None
        self._unread: list[int] = []
        self._cache: list[Any] = []
        self._tokens: Iterator[tuple[int, mx.array]] = iter(())
        self._num_tokens = 0
        self.set_limits(limits)

    def insert(self, submit: Submit) -> None:
        """Take the only sequence."""
        assert isinstance(submit.prompt, TokenPrompt)
        ids = submit.prompt.ids
        cache = make_prompt_cache(self.model)
        self._tokens = generate_step(
            mx.array(ids[-1:]),
            self.model,
            max_tokens=submit.max_tokens,
            sampler=make_sampler(submit.sampling, self._vocab_size),
            prompt_cache=cache,
        )
        self._submit = submit
        self._unread = ids[:-1]
        self._cache = cache
        self._num_tokens = 0

    def remove(self, request_id: str) -> None:
        """Free the sequence."""
        assert self._submit is not None
        assert self._submit.id == request_id
        self.reset()

    def step(self) -> Outcome:
        """Prefill one chunk, or decode one token."""
        assert self._submit is not None
        begin = time.perf_counter()
        outcome = Outcome()
        if self._unread:
            self._prefill()
            outcome.seconds["prefill"] = time.perf_counter() - begin
            return outcome
        token, _ = next(self._tokens)
        self._num_tokens += 1
        outcome.rows.append(Row(self._submit.id, "", 1, [token]))
        if token in self._stop_ids(self._submit):
            outcome.ends[self._submit.id] = "stop"
        elif self._num_tokens == self._submit.max_tokens:
            outcome.ends[self._submit.id] = "length"
        if outcome.ends:
            self.reset()
        outcome.seconds["decode"] = time.perf_counter() - begin
        return outcome

    def _prefill(self) -> None:
        # generate_step would read the whole prompt in its first step, deaf to a cancel.
        chunk = self._unread[: self._chunk_tokens]
        self.model(mx.array([chunk]), cache=self._cache)
        mx.eval([cache.state for cache in self._cache])
        del self._unread[: self._chunk_tokens]

    def idle_seconds(self) -> float | None:
        """Return 0 while there is a sequence."""
        return 0.0 if self._submit else None

    def reset(self) -> None:
        """Drop the sequence."""
        self._submit = None
        self._unread = []
        self._cache = []
        self._tokens = iter(())

    def close(self) -> None:
        """Free the model."""
        self.reset()
        del self.model
