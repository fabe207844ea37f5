"""Step many sequences together with mlx-lm's continuous batch generator."""

from mlx import nn
from mlx_lm.generate import BatchGenerator, StopSequences
from mlx_lm.models.cache import make_prompt_cache

from appliance.engine.body import Outcome
from appliance.engine.mlx_body import LoadedModel, MlxBody
from appliance.engine.sampler import make_sampler
from appliance.engine.wire import EngineSettings, MemoryLimits, Row, Submit, TokenPrompt

# Fewer, and short prompts wait for a long one; more, and a long one is read in tiny chunks.
_PREFILL_SEQUENCES = 4
_BATCH_VERBS = ("filter", "extend", "extract")


class BatchedBody(MlxBody):
    """A Body over `mlx_lm.generate.BatchGenerator`, by its public verbs. Engine thread only."""

    def __init__(self, loaded: LoadedModel, engine: EngineSettings, limits: MemoryLimits) -> None:
        super().__init__(loaded, engine, limits)
        self._uids: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._generator = self._build()
        self.set_limits(limits)

    def insert(self, submit: Submit) -> None:
        """Take one more sequence; its prompt is prefilled in chunks by the next steps."""
        assert isinstance(submit.prompt, TokenPrompt)
        (uid,) = self._generator.insert(
            [submit.prompt.ids],
            max_tokens=[submit.max_tokens],
            samplers=[make_sampler(submit.sampling, self._vocab_size)],
            stop_sequences=[StopSequences([(token,) for token in self._stop_ids(submit)])],
        )
        self._uids[submit.id] = uid
        self._ids[uid] = submit.id

    def remove(self, request_id: str) -> None:
        """Free a sequence in any phase."""
        uid = self._uids.pop(request_id)
        del self._ids[uid]
        self._generator.remove([uid])

    def step(self) -> Outcome:
        """Decode one token of every running sequence and prefill a chunk of the new ones."""
        outcome = Outcome()
        with self._generator.stats() as stats:
            prefilled, decoded = self._generator.next()
        for response in decoded:
            request_id = self._ids[response.uid]
            outcome.rows.append(Row(request_id, "", 1, [response.token]))
            if response.finish_reason is not None:
                outcome.ends[request_id] = response.finish_reason
                del self._ids[response.uid], self._uids[request_id]
        if prefilled:
            outcome.seconds["prefill"] = stats.prompt_time
        if decoded:
            outcome.seconds["decode"] = stats.generation_time
        return outcome

    def idle_seconds(self) -> float | None:
        """Return 0 while there are sequences: a model always has the next step to do."""
        return 0.0 if self._uids else None

    def reset(self) -> None:
        """Drop every sequence and build a new generator."""
        self._generator.close()
        self._uids.clear()
        self._ids.clear()
        self._generator = self._build()
        self._wire_share()

    def close(self) -> None:
        """Free the generator and the model."""
        self._generator.close()
        del self._generator, self.model

    def _build(self) -> BatchGenerator:
        # The generator raises its decode batch to its prefill batch, so the latter is capped too.
        num_prompts = min(_PREFILL_SEQUENCES, self.max_sequences, self._chunk_tokens)
        return BatchGenerator(
            self.model,
            completion_batch_size=self.max_sequences,
            prefill_batch_size=num_prompts,
            # The generator reads a chunk of each of its prompts in one step.
            prefill_step_size=self._chunk_tokens // num_prompts,
        )


def can_batch(model: nn.Module) -> bool:
    """Say whether the generator can merge this model's prompt caches and split them again."""
    try:
        merged = [cache.merge([cache]) for cache in make_prompt_cache(model)]
    except AttributeError:
        return False
    return all(hasattr(cache, verb) for cache in merged for verb in _BATCH_VERBS)
