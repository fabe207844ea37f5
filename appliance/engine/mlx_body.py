"""Hold what every body over an MLX language model shares."""

from dataclasses import dataclass

import mlx.core as mx
from mlx import nn

from appliance.chat.request import SamplingParams
from appliance.chat.sampling import is_in_range
from appliance.chat.tokenizer import Tokenizer
from appliance.engine.wire import EngineSettings, MemoryLimits, Submit, TokenPrompt
from appliance.errors import InvalidRequest


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory with what was found out while loading it."""

    model: nn.Module
    tokenizer: Tokenizer
    context_tokens: int
    vocab_size: int
    footprint_bytes: int


class MlxBody:
    """The half of Body that does not depend on how sequences are stepped. Engine thread only."""

    waits_for_room = False

    def __init__(self, loaded: LoadedModel, engine: EngineSettings, limits: MemoryLimits) -> None:
        self.tokenizer = loaded.tokenizer
        self.context_tokens = loaded.context_tokens
        self.footprint_bytes = loaded.footprint_bytes
        self.max_sequences = engine.max_sequences
        self.model = loaded.model
        self._vocab_size = loaded.vocab_size
        self._chunk_tokens = engine.prefill_chunk_tokens
        self._limits = limits

    def count_prompt(self, submit: Submit) -> int:
        """Return the number of ids; raises InvalidRequest for ids the model does not have."""
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
        _check_sampling(submit.sampling)
        return len(ids)

    def set_limits(self, limits: MemoryLimits) -> None:
        """Keep to a new memory share; what it leaves open stays as it is."""
        self._limits = limits
        if limits.memory_bytes is not None:
            mx.set_memory_limit(limits.memory_bytes)
        if limits.cache_bytes is not None:
            mx.set_cache_limit(limits.cache_bytes)
        self._wire_share()

    def memory_bytes(self) -> int:
        """Return the bytes MLX has in use in this process."""
        return int(mx.get_active_memory())

    def _stop_ids(self, submit: Submit) -> frozenset[int]:
        return frozenset() if submit.ignore_eos else frozenset(self.tokenizer.eos_token_ids)

    def _wire_share(self) -> None:
        if mx.metal.is_available():
            mx.set_wired_limit(self._limits.wired_bytes or 0)


def _check_sampling(sampling: SamplingParams) -> None:
    for name in ("temperature", "top_p", "top_k", "min_p"):
        if not is_in_range(name, getattr(sampling, name)):
            raise InvalidRequest(f"{name} is out of range.", param=name)
