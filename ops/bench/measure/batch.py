"""Fill batches with rows of a length, ours and mlx-lm's, from prompts that are read only once."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

from appliance.engine.blas import preload_blas

_CHUNK_TOKENS = 512
_DISTINCT = 8


def load_plain(folder: Path) -> tuple[Any, int]:
    """Return a folder's model, all in memory, and the size of its vocabulary."""
    preload_blas()
    from mlx_lm.utils import load_model

    model, config = load_model(folder)
    return model, int(config["vocab_size"])


@dataclass
class Filling:
    """Prompts of one length, a few of them distinct, each read into prompt caches once."""

    model: Any
    vocab_size: int
    length: int
    ids: list[list[int]] = field(default_factory=list)
    caches: list[list[Any]] = field(default_factory=list)

    def read(self, rows: int) -> None:
        """Read as many distinct prompts as `rows` rows have use for."""
        import mlx.core as mx
        from mlx_lm.models.cache import make_prompt_cache

        while len(self.ids) < min(rows, _DISTINCT):
            source = random.Random(len(self.ids))
            ids = [source.randrange(100, self.vocab_size) for _ in range(self.length + 1)]
            caches = make_prompt_cache(self.model)
            for start in range(0, self.length, _CHUNK_TOKENS):
                chunk = ids[start : min(start + _CHUNK_TOKENS, self.length)]
                self.model(mx.array([chunk]), cache=caches)
                mx.eval([cache.state for cache in caches])
            self.ids.append(ids)
            self.caches.append(caches)

    def row_bytes(self) -> int:
        """Return the bytes of one row's keys and values, without the room to grow."""
        arrays = [array for cache in self.caches[0] for array in cache.state[:2]]
        return sum(array.nbytes * self.length // array.shape[2] for array in arrays)

    def prompts(self, rows: int) -> list[list[int]]:
        """Return a prompt for each row."""
        return [self.ids[row % len(self.ids)] for row in range(rows)]

    def prompt_caches(self, rows: int) -> list[list[Any]]:
        """Return the prompt caches for each row; rows share those of equal prompts."""
        return [self.caches[row % len(self.ids)] for row in range(rows)]


class OurRows:
    """Our Rows over a batch, stepped as the engine steps them: one step queued ahead."""

    def __init__(self, batch: Any, filling: Filling, rows: int, columns: int) -> None:
        import mlx.core as mx

        from appliance.engine.rows import Rows
        from appliance.engine.sampling import BatchSampler

        sampler = BatchSampler(filling.vocab_size, compiled=mx.default_device() != mx.cpu)
        self._rows = Rows(batch, sampler)
        self._rows.reshape(rows, columns)
        for number, (ids, caches) in enumerate(
            zip(filling.prompts(rows), filling.prompt_caches(rows), strict=True)
        ):
            self._join(number, ids, caches)
        self._flight: Any = None
        self.made: list[list[int]] = [[] for _ in range(rows)]

    def step(self) -> None:
        """Queue a step and read the tokens of the one before."""
        landing, self._flight = self._flight, self._rows.decode()
        if landing is None:
            return
        tokens = landing.sampled.tokens.tolist()
        assert all(landing.sampled.is_sound.tolist())
        for made, token in zip(self.made, tokens, strict=False):
            made.append(token)

    def close(self) -> None:
        self._rows.clear()

    def _join(self, number: int, ids: list[int], caches: list[Any]) -> None:
        from appliance.engine.prompt import Prompt
        from appliance.engine.rows import Running
        from appliance.scheduler.sequence import Sequence

        submit = make_submit(str(number), ids, 10**6)
        sequence = Sequence(submit.id, len(ids))
        prompt = Prompt(submit, sequence, ids, num_read=len(ids) - 1, caches=caches)
        self._rows.join(Running(submit, sequence, frozenset(), 0), prompt)


def make_submit(name: str, ids: list[int], max_tokens: int) -> Any:
    """Return a greedy request for the engine that ends at `max_tokens` only."""
    from appliance.chat.request import SamplingParams
    from appliance.engine.wire import Submit, TokenPrompt

    greedy = SamplingParams(temperature=0.0)
    return Submit("m", name, TokenPrompt(ids), max_tokens, sampling=greedy, ignore_eos=True)


def random_ids(seed: int, length: int, vocab_size: int) -> list[int]:
    source = random.Random(f"ids {seed}")
    return [source.randrange(100, vocab_size) for _ in range(length)]


def step_seconds(step: Callable[[], object], steps: int) -> list[float]:
    """Return what each of so many steps took."""
    times = [perf_counter()]
    for _ in range(steps):
        step()
        times.append(perf_counter())
    return [after - before for before, after in pairwise(times)]
