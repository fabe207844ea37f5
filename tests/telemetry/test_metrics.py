"""Every series of a model is there before anything happened."""

import pytest

from appliance.telemetry.metrics import RESULTS, Metrics

COUNTS = (
    "requests_running",
    "requests_waiting",
    "batch_size",
    "preemptions_total",
    "model_loads_total",
    "worker_restarts_total",
    "completion_tokens_total",
    "request_seconds_count",
    "queue_seconds_count",
    "time_to_first_token_seconds_count",
    "inter_token_seconds_count",
)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"vllm_mlx_{name}", {"model": "chat", **labels})


@pytest.mark.parametrize("name", COUNTS)
def test_series_of_a_model_begins_at_zero(name: str) -> None:
    metrics = Metrics()
    assert value(metrics, name) is None

    metrics.add_model("chat", ("READY",))

    assert value(metrics, name) == 0


def test_series_of_results_and_step_phases_begin_at_zero() -> None:
    metrics = Metrics()

    metrics.add_model("chat", ("READY",))

    for result in RESULTS:
        assert value(metrics, "requests_total", api="chat", result=result) == 0
    for phase in ("prefill", "decode"):
        assert value(metrics, "engine_step_seconds_count", phase=phase) == 0
