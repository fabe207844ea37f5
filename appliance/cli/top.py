"""Answer `vllm-mlx top`: what is each model doing right now?"""

import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from appliance.cli.output import Cell, Exit, printable, say, say_json, table_lines
from appliance.cli.reach import ApplianceClient, find_door
from appliance.cli.screen import Block, can_redraw
from appliance.cli.status import headline
from appliance.cli.watch import phase_cell, situation
from appliance.cli.wire import ModelStatusBody, RequestBody, RequestsBody, StatusBody
from appliance.manifest.quantity import readable_bytes

_PERIOD_SECONDS = 1.0


@dataclass(frozen=True)
class Look:
    """What was seen in one moment; `at` in seconds of a clock that never goes back."""

    at: float
    status: StatusBody
    requests: Sequence[RequestBody]


def run_top(*, url: str | None, state_dir: str | None, as_json: bool) -> Exit:
    """Show every model: live on a terminal until Ctrl-C, once elsewhere. Raises CommandFailed."""
    client = ApplianceClient(find_door(url, state_dir))
    look = _look(client)
    if as_json:
        say_json(_as_json(look))
    elif can_redraw(sys.stdout):
        _show_live(client, look)
    else:
        for line in _lines(look, {}):
            say(line)
    return Exit.OK


def token_rates(before: Look, after: Look) -> dict[str, float]:
    """Return the tokens per second that each model answered between two looks.

    Requests that began or ended in between count only as far as both looks saw them.
    """
    seconds = max(after.at - before.at, 1e-3)
    tokens = {each.id: each.completion_tokens for each in before.requests}
    rates: dict[str, float] = defaultdict(float)
    for request in after.requests:
        known = tokens.get(request.id)
        if known is not None and request.completion_tokens is not None:
            rates[request.model] += max(0, request.completion_tokens - known) / seconds
    return dict(rates)


def _look(client: ApplianceClient) -> Look:
    status = client.get("/admin/v1/status", StatusBody)
    requests = client.get("/admin/v1/requests", RequestsBody).requests
    return Look(time.monotonic(), status, requests)


def _show_live(client: ApplianceClient, look: Look) -> None:
    block = Block(sys.stdout)
    rates: Mapping[str, float] = {}
    while True:
        block.draw(_lines(look, rates))
        time.sleep(_PERIOD_SECONDS)
        before, look = look, _look(client)
        rates = token_rates(before, look)


def _lines(look: Look, rates: Mapping[str, float]) -> list[str]:
    headers = ("MODEL", "PHASE", "REQUESTS", "TOK/S", "MEMORY", "HELD", "")
    names = {name: model.name for model in look.status.models for name in model.profiles}
    totals: dict[str, float] = defaultdict(float)
    for name, rate in rates.items():
        totals[names.get(name, name)] += rate
    rows = [_row(model, totals.get(model.name)) for model in look.status.models]
    return [headline(look.status), *table_lines(headers, rows)]


def _row(model: ModelStatusBody, rate: float | None) -> tuple[Cell, ...]:
    return (
        model.name,
        phase_cell(model),
        str(model.requests),
        "" if rate is None else f"{rate:.1f}",
        readable_bytes(model.memory_bytes) if model.memory_bytes else "",
        readable_bytes(model.held_bytes) if model.held_bytes else "",
        printable(situation(model)),
    )


def _as_json(look: Look) -> dict[str, object]:
    return {
        "status": msgspec.to_builtins(look.status),
        "requests": msgspec.to_builtins(look.requests),
    }
