"""Say what of a model is in memory or on its way, for whoever plans."""

from dataclasses import dataclass

from appliance.manifest.spec import ModelSpec
from appliance.registry.phase import Phase


@dataclass(frozen=True)
class ObservedModel:
    """One name's copies at one moment.

    `spec` is the policy in force; `load_key` names what is in memory or on its way there,
    `incoming_key` a copy that is to replace it, `failed_key` a load that failed for good with this
    revision. `held_bytes` are promised for all copies, draining ones too. `is_busy`: the registry
    is at work on it. `idle_seconds` since the last lease ended, 0 while one lasts.
    """

    name: str
    spec: ModelSpec
    load_key: str | None
    incoming_key: str | None
    failed_key: str | None
    phase: Phase
    held_bytes: int
    is_busy: bool
    reason: str
    idle_seconds: float
    num_leases: int
