"""Hold every Prometheus metric of the gateway in one object, on a registry of its own."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from appliance import __version__

RESULTS = ("ok", "cancelled", "rejected", "error", "shutdown")
NO_MODEL = "none"
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
        self.worker_restarts_total = self._counter(
            "worker_restarts", "Workers that ended by themselves.", "model"
        )

    def add_model(self, model: str, phases: tuple[str, ...]) -> None:
        """Start every series of `model` at zero; `phases` are all it can be in."""
        for api in self._apis:
            self._init_results(model, api)
        for metric in self._by_model():
            metric.labels(model)
        for phase in _PHASES:
            self.engine_step_seconds.labels(model, phase)
        for phase in phases:
            self.model_phase.labels(model, phase)
        self.memory_bytes.labels(model, "engine")

    def set_phase(self, model: str, phase: str, phases: tuple[str, ...]) -> None:
        """Show that `model` is in `phase` and in no other."""
        for each in phases:
            self.model_phase.labels(model, each).set(1 if each == phase else 0)

    def exposition(self) -> bytes:
        """Return everything in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)

    def _by_model(self) -> list[Counter | Gauge | Histogram]:
        return [
            self.requests_running,
            self.requests_waiting,
            self.request_seconds,
            self.queue_seconds,
            self.time_to_first_token_seconds,
            self.inter_token_seconds,
            self.prompt_tokens_total,
            self.cached_tokens_total,
            self.completion_tokens_total,
            self.batch_size,
            self.preemptions_total,
            self.model_loads_total,
            self.worker_restarts_total,
        ]

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
