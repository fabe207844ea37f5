"""Answer `vllm-mlx status` and `vllm-mlx models list`: what runs, and in which phase."""

import msgspec

from appliance.cli.output import (
    Colour,
    Exit,
    painted,
    printable,
    readable_bytes,
    readable_seconds,
    say,
    say_json,
    say_table,
)
from appliance.cli.reach import ApplianceClient, find_door
from appliance.cli.wire import Health, ModelEntry, ModelHealth, ModelPage, ProgressBody

_COLOURS: dict[str, Colour] = {"ready": "green", "not_ready": "yellow", "draining": "yellow"}


def run_status(*, url: str | None, state_dir: str | None, as_json: bool) -> Exit:
    """Say how the appliance and its models are; NOT_CONVERGED unless it is ready."""
    health = ApplianceClient(find_door(url, state_dir)).get("/health", Health)
    if as_json:
        say_json(msgspec.to_builtins(health))
    else:
        _tell_health(health)
    return Exit.OK if health.status == "ready" else Exit.NOT_CONVERGED


def run_models_list(*, url: str | None, state_dir: str | None, as_json: bool) -> Exit:
    """List every name that this caller may use, aliases included, and the model behind it."""
    client = ApplianceClient(find_door(url, state_dir))
    entries = client.get("/v1/models", ModelPage).data
    details = client.get("/health", Health).models or []
    memory = {model.name: model.memory_bytes for model in details}
    if as_json:
        say_json({"models": [_entry(each, memory.get(each.root)) for each in entries]})
    else:
        rows = [_entry_row(each, memory.get(each.root)) for each in entries]
        say_table(("NAME", "MODEL", "KIND", "STATE", "CONTEXT", "MEMORY"), rows)
    return Exit.OK


def _tell_health(health: Health) -> None:
    facts = [
        painted(printable(health.status).replace("_", " "), _COLOURS.get(health.status, "red"))
    ]
    if health.version:
        facts.append(f"version {printable(health.version)}")
    if health.uptime_seconds is not None:
        facts.append(f"up {readable_seconds(health.uptime_seconds)}")
    say(" · ".join(facts))
    if health.models is None:
        say("Set VLLM_MLX_API_KEY to see the models.")
    elif health.models:
        headers = ("NAME", "PHASE", "FOR", "REQUESTS", "CONTEXT", "MEMORY", "RESTARTS", "REASON")
        say_table(headers, [_row(model) for model in health.models])


def _row(model: ModelHealth) -> tuple[str, ...]:
    return (
        model.name,
        model.phase,
        readable_seconds(model.seconds_in_phase),
        str(model.requests),
        str(model.context_tokens or ""),
        readable_bytes(model.memory_bytes) if model.memory_bytes else "",
        str(model.restarts or ""),
        _reason(model),
    )


def _reason(model: ModelHealth) -> str:
    if model.progress is not None:
        return _progress(model.progress)
    if model.retry_in_seconds is not None:
        return f"{model.reason}; tried again in {readable_seconds(model.retry_in_seconds)}"
    return "" if model.phase == "ready" else model.reason


def _progress(progress: ProgressBody) -> str:
    if not progress.total:
        return progress.phase
    return f"{progress.phase} {100 * progress.done // progress.total}%"


def _entry(entry: ModelEntry, memory_bytes: int | None) -> dict[str, object]:
    return {
        "name": entry.id,
        "model": entry.root,
        "kind": entry.kind,
        "state": entry.state,
        "context_tokens": entry.context_length,
        "memory_bytes": memory_bytes,
    }


def _entry_row(entry: ModelEntry, memory_bytes: int | None) -> tuple[str, ...]:
    context = str(entry.context_length or "")
    memory = readable_bytes(memory_bytes) if memory_bytes else ""
    return (entry.id, entry.root, entry.kind, entry.state, context, memory)
