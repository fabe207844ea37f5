"""Define a model's section `engine`: how it runs."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.manifest.quantity import AutoBytes, Seconds
from appliance.manifest.spec.section import Later, Section
from appliance.manifest.spec.text import SourceText


class KvQuantizationSpec(Section):
    """Keys and values of attention in fewer bits."""

    bits: Literal[2, 3, 4, 6, 8] = Field(description="Bits of one number.")
    group_size: Literal[32, 64, 128] = Field(default=64, description="Numbers that share a scale.")


class DraftSpec(Section):
    """A small model that guesses ahead of the large one."""

    source: SourceText = Field(description="Where the small model comes from.")
    tokens: int = Field(default=4, ge=1, le=64, description="Tokens guessed at a time.")


class EngineSpec(Section):
    """How a model runs; changing any of this but `step_timeout` needs a load."""

    kind: Literal["batched", "simple"] = Field(
        default="batched",
        description="batched = continuous batching, simple = one request at a time.",
    )
    max_sequences: int = Field(default=32, ge=1, le=8192, description="Sequences decoded together.")
    prefill_chunk_tokens: int = Field(
        default=2048, ge=16, description="Most prompt tokens in one step; speed decides below it."
    )
    max_context_tokens: int | None = Field(
        default=None,
        ge=16,
        description="Longest prompt plus answer; none = what the model supports.",
    )
    memory: AutoBytes = Field(
        default="auto", description="What it takes in memory; auto = reckoned from its files."
    )
    trust_remote_code: bool = Field(
        default=False, description="Run Python code that comes with the model's files."
    )
    step_timeout: Seconds = Field(
        default=60.0, gt=0, description="A worker is replaced after this long in one step."
    )
    kv_quantization: Annotated[KvQuantizationSpec | None, Later(None)] = Field(
        default=None, description="Keys and values in fewer bits; none = as they are."
    )
    adapter: Annotated[SourceText | None, Later(None)] = Field(
        default=None, description="Where a LoRA adapter comes from."
    )
    draft: Annotated[DraftSpec | None, Later(None)] = Field(
        default=None, description="A small model that guesses ahead."
    )

    @property
    def num_slots(self) -> int:
        """How many requests run together."""
        return 1 if self.kind == "simple" else self.max_sequences
