"""Answer `vllm-mlx status` and `vllm-mlx models list`: what runs, and in which phase."""

import contextlib
import json
import sys
from collections.abc import Callable

import msgspec

from appliance.cli.output import (
    Cell,
    Colour,
    CommandFailed,
    Exit,
    painted,
    printable,
    readable_seconds,
    say,
    say_json,
    say_table,
    table_lines,
)
from appliance.cli.reach import ApiError, ApplianceClient, find_door
from appliance.cli.screen import Block, can_redraw
from appliance.cli.watch import Telling, painted_state, phase_cell, situation, statuses
from appliance.cli.wire import (
    Health,
    ModelEntry,
    ModelHealth,
    ModelPage,
    ModelStatusBody,
    ProgressBody,
    StatusBody,
)
from appliance.manifest.quantity import readable_bytes

_COLOURS: dict[str, Colour] = {"ready": "green", "not_ready": "yellow", "draining": "yellow"}


def run_status(*, is_watching: bool, url: str | None, state_dir: str | None, as_json: bool) -> Exit:
    """Say how the appliance and its models are; NOT_CONVERGED unless all is as it should be.

    Who may see less of it is told less. With `is_watching` go on after every change, as_json with
    one object a line. Raises CommandFailed.
    """
    client = ApplianceClient(find_door(url, state_dir))
    if is_watching:
        return _watch(client, as_json=as_json)
    health = client.get("/health", Health)
    status = _fetch_status(client)
    if as_json:
        details = {} if status is None else msgspec.to_builtins(status)
        say_json(msgspec.to_builtins(health) | details)
    elif status is None:
        _tell_health(health)
    else:
        say(f"{_describe_health(health)} · {headline(status)}")
        _say_lines(status_lines(status))
    is_converged = status is None or status.state == "converged"
    return Exit.OK if health.status == "ready" and is_converged else Exit.NOT_CONVERGED


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


def headline(status: StatusBody) -> str:
    """Return what there is to say of the appliance as a whole, in one line."""
    facts = [painted(*painted_state(status.state))]
    if status.number is not None:
        facts.append(f"revision {status.number}")
    if status.budget_bytes is not None:
        held = readable_bytes(status.held_bytes)
        facts.append(f"{held} of {readable_bytes(status.budget_bytes)} held")
    return " · ".join(facts)


def status_lines(status: StatusBody) -> list[str]:
    """Return the lines about the last reading of the manifest, if it failed, and every model."""
    problems = [] if status.reload.is_ok else status.reload.problems
    rejected = [painted(f"rejected: {_one_line(problem)}", "red") for problem in problems]
    return [*rejected, *_table(status.models)]


def _table(models: list[ModelStatusBody]) -> list[str]:
    if not models:
        return []
    headers = ("NAME", "PHASE", "WISH", "REQUESTS", "CONTEXT", "MEMORY", "RESTARTS", "REASON")
    return table_lines(headers, [_status_row(model) for model in models])


def _status_row(model: ModelStatusBody) -> tuple[Cell, ...]:
    return (
        model.name,
        phase_cell(model),
        f"{model.override} (override)" if model.override else model.wish,
        str(model.requests),
        str(model.context_tokens or ""),
        readable_bytes(model.memory_bytes) if model.memory_bytes else "",
        str(model.restarts or ""),
        situation(model),
    )


def _watch(client: ApplianceClient, *, as_json: bool) -> Exit:
    show = _print_json if as_json else _drawer() if can_redraw(sys.stdout) else _teller()
    with contextlib.closing(statuses(client)) as stream:
        for status in stream:
            show(status)
    raise CommandFailed("the appliance ended its status", code=Exit.NOT_REACHABLE)


def _print_json(status: StatusBody) -> None:
    say(json.dumps(msgspec.to_builtins(status)))


def _drawer() -> Callable[[StatusBody], None]:
    block = Block(sys.stdout)
    return lambda status: block.draw([headline(status), *status_lines(status)])


def _teller() -> Callable[[StatusBody], None]:
    """Return what writes the first status whole, and then a line for all that is new."""
    telling = Telling()
    heads: list[str] = []

    def tell(status: StatusBody) -> None:
        head = headline(status)
        if not heads:
            _say_lines([head, *status_lines(status)])
            telling.note(status)
        elif heads[-1] != head:
            say(head)
        heads[:] = [head]
        telling.show(status)

    return tell


def _say_lines(lines: list[str]) -> None:
    for line in lines:
        say(line)


def _fetch_status(client: ApplianceClient) -> StatusBody | None:
    """Return the status if this caller may see it."""
    try:
        return client.get("/admin/v1/status", StatusBody)
    except ApiError as error:
        if error.status not in (401, 403, 404):
            raise
        return None


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _describe_health(health: Health) -> str:
    facts = [
        painted(printable(health.status).replace("_", " "), _COLOURS.get(health.status, "red"))
    ]
    if health.version:
        facts.append(f"version {printable(health.version)}")
    if health.uptime_seconds is not None:
        facts.append(f"up {readable_seconds(health.uptime_seconds)}")
    return " · ".join(facts)


def _tell_health(health: Health) -> None:
    say(_describe_health(health))
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
