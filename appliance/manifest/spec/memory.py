"""Define the manifest's section `memory`: how much of the machine models may take."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.manifest.quantity import Bytes, Seconds, Share, ShareOrBytes
from appliance.manifest.spec.section import Later, Section


class ContentionSpec(Section):
    """What happens to a request whose model finds no room."""

    wait: Seconds = Field(default=30.0, description="How long it waits for room; 0s = not at all.")
    then: Annotated[Literal["fail", "preempt"], Later("fail", names="value")] = Field(
        default="fail",
        description="fail = refuse it, preempt = end requests of which no byte was sent.",
    )


class MemorySpec(Section):
    """How much memory all models together may take."""

    budget: ShareOrBytes = Field(
        default=Share(0.8), description="Of what the machine can give, such as 80%, or bytes."
    )
    reserve: Bytes = Field(default=2 * 2**30, description="Never touched.")
    contention: ContentionSpec = Field(
        default=ContentionSpec(), description="What happens where models find no room."
    )

    def budget_bytes(self, machine_bytes: int) -> int:
        """Return what models may take on a machine that can give `machine_bytes`; at least 0."""
        budget = self.budget.of(machine_bytes) if isinstance(self.budget, Share) else self.budget
        return max(0, min(budget, machine_bytes - self.reserve))
