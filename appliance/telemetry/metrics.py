"""Hold every Prometheus metric of the gateway in one object, on a registry of its own."""

import contextlib
from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from appliance import __version__

Metric = Counter | Gauge | Histogram

RESULTS = ("ok", "cancelled", "rejected", "error", "shutdown")
NO_MODEL = "none"
RECONCILE_RESULTS = ("quiet", "acted", "failed")
_PHASES = ("prefill", "decode")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_STEP_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double a scrape


class Metrics:
    """Every series the appliance exposes. Event loop only; label values come from bounded sets."""

    def __init__(self, apis: tuple[str, ...] = ("chat",)) -> None:
        self.registry = CollectorRegistry()
        self._apis = apis
        self._define_requests()
        self._define_engines()
        self._define_config()
        self.unknown_fields_total = self._counter(
            "unknown_fields", "Fields in request bodies that nothing reads.", "api"
        )
        self.build_info = self._gauge("build_info", "The version that runs.", "version")
        self.build_info.labels(__version__).set(1)
        for api in apis:
            self.unknown_fields_total.labels(api)
            self._init_results(NO_MODEL, api)

    def _define_requests(self) -> None:
        self.requests_total = self._counter(
            "requests", "Requests by how they ended.", "model", "api", "result"
        )
        self.requests_running = self._gauge(
            "requests_running", "Requests that an engine is working on.", "model"
        )
        self.requests_waiting = self._gauge(
            "requests_waiting", "Requests waiting for a model or a place in its batch.", "model"
        )
        self.request_seconds = self._histogram(
            "request_seconds", "From the request's arrival to its end.", _SECONDS
        )
        self.queue_seconds = self._histogram(
            "queue_seconds", "From arrival until the engine began with the request.", _SECONDS
        )
        self.time_to_first_token_seconds = self._histogram(
            "time_to_first_token_seconds", "From arrival to the first text.", _SECONDS
        )
        self.inter_token_seconds = self._histogram(
            "inter_token_seconds", "Between the texts of one answer.", _STEP_SECONDS
        )
        self.prompt_tokens_total = self._counter("prompt_tokens", "Tokens read.", "model")
        self.cached_tokens_total = self._counter(
            "cached_tokens", "Prompt tokens that a cache saved.", "model"
        )
        self.completion_tokens_total = self._counter(
            "completion_tokens", "Tokens written.", "model"
        )
        self.repetition_stops_total = self._counter(
            "repetition_stops", "Answers ended for going round in circles.", "model"
        )

    def _define_config(self) -> None:
        self.config_last_reload_successful = self._gauge(
            "config_last_reload_successful", "1 = the last manifest that was read is in force."
        )
        self.config_last_reload_success_timestamp_seconds = self._gauge(
            "config_last_reload_success_timestamp_seconds", "When a manifest was last accepted."
        )
        self.config_revision_info = self._gauge(
            "config_revision_info", "The revision in force.", "revision"
        )
        self.memory_budget_bytes = self._gauge(
            "memory_budget_bytes", "What all models together may hold."
        )
        self.reconcile_total = self._counter(
            "reconcile", "Passes of the reconciler by what came of them.", "result"
        )
        for result in RECONCILE_RESULTS:
            self.reconcile_total.labels(result)
        self.reconcile_seconds = Histogram(
            "vllm_mlx_reconcile_seconds",
            "Time of a pass of the reconciler.",
            buckets=_STEP_SECONDS,
            registry=self.registry,
        )

    def set_revision(self, revision: str) -> None:
        """Say which revision is in force, and no more which was."""
        self.config_revision_info.clear()
        self.config_revision_info.labels(revision).set(1)

    def _define_engines(self) -> None:
        self.engine_step_seconds = self._histogram(
            "engine_step_seconds",
            "Time of engine steps by phase; steps sent together count as one.",
            _STEP_SECONDS,
            "model",
            "phase",
        )
        self.batch_size = self._gauge("batch_size", "Sequences in the engine's batch.", "model")
        self.preemptions_total = self._counter(
            "preemptions", "Running requests that had to make room and wait again.", "model"
        )
        self.memory_bytes = self._gauge("memory_bytes", "Bytes held.", "model", "kind")
        self.model_phase = self._gauge(
            "model_phase", "1 for the phase the model is in.", "model", "phase"
        )
        self.model_loads_total = self._counter("model_loads", "Loads that succeeded.", "model")
        self.model_unloads_total = self._counter(
            "model_unloads", "Models that left memory, by why.", "model", "reason"
        )
        self.worker_restarts_total = self._counter(
            "worker_restarts", "Workers that ended by themselves.", "model"
        )

    def add_model(
        self, model: str, phases: tuple[str, ...], unload_reasons: tuple[str, ...] = ()
    ) -> None:
        """Start every series of `model` at zero; `phases` are all it can be in."""
        for metric, labels in self._series(phases, unload_reasons):
            metric.labels(model, *labels)

    def add_profile(self, model: str) -> None:
        """Start the series of requests at zero for a name that shares another's copy."""
        for metric, labels in self._request_series():
            metric.labels(model, *labels)

    def drop_model(
        self, model: str, phases: tuple[str, ...], unload_reasons: tuple[str, ...] = ()
    ) -> None:
        """Show nothing more of a model or profile that is gone."""
        for metric, labels in self._series(phases, unload_reasons):
            with contextlib.suppress(KeyError):
                metric.remove(model, *labels)

    def set_phase(self, model: str, phase: str, phases: tuple[str, ...]) -> None:
        """Show that `model` is in `phase` and in no other."""
        for each in phases:
            self.model_phase.labels(model, each).set(1 if each == phase else 0)

    def exposition(self) -> bytes:
        """Return everything in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)

    def _series(
        self, phases: tuple[str, ...], unload_reasons: tuple[str, ...]
    ) -> Iterator[tuple[Metric, tuple[str, ...]]]:
        """Yield every series of a model: its metric, and its labels after the model's name."""
        yield from self._request_series()
        for metric in (
            self.batch_size,
            self.preemptions_total,
            self.model_loads_total,
            self.worker_restarts_total,
        ):
            yield metric, ()
        yield from ((self.engine_step_seconds, (phase,)) for phase in _PHASES)
        yield from ((self.model_phase, (phase,)) for phase in phases)
        yield from ((self.model_unloads_total, (reason,)) for reason in unload_reasons)
        yield self.memory_bytes, ("engine",)

    def _request_series(self) -> Iterator[tuple[Metric, tuple[str, ...]]]:
        for api in self._apis:
            yield from ((self.requests_total, (api, result)) for result in RESULTS)
        for metric in (
            self.requests_running,
            self.requests_waiting,
            self.request_seconds,
            self.queue_seconds,
            self.time_to_first_token_seconds,
            self.inter_token_seconds,
            self.prompt_tokens_total,
            self.cached_tokens_total,
            self.completion_tokens_total,
            self.repetition_stops_total,
        ):
            yield metric, ()

    def _init_results(self, model: str, api: str) -> None:
        for result in RESULTS:
            self.requests_total.labels(model, api, result)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"vllm_mlx_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"vllm_mlx_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        names = labels or ("model",)
        return Histogram(f"vllm_mlx_{name}", text, names, buckets=buckets, registry=self.registry)
