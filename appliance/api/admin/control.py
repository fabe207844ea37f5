"""Name what the admin API may do with the appliance."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.api.gate import Gate
from appliance.pipeline.pipeline import Pipeline
from appliance.reconcile.reconciler import Reconciler
from appliance.reconcile.records import Records
from appliance.registry.registry import Registry
from appliance.telemetry.log import LogLevel
from appliance.telemetry.metrics import Metrics
from appliance.telemetry.tail import LogTail


@dataclass(frozen=True)
class Control:
    """The objects behind the admin API; `stop` begins a shutdown. Event loop only."""

    reconciler: Reconciler
    registry: Registry
    pipeline: Pipeline
    records: Records
    metrics: Metrics
    tail: LogTail
    gate: Gate
    set_log_level: Callable[[LogLevel], None]
    stop: Callable[[], None]
