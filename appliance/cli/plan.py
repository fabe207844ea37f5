"""Answer `vllm-mlx plan FILE`: what would this manifest change, and does it fit?"""

from pathlib import Path

import msgspec

from appliance.cli.output import (
    Cell,
    Colour,
    CommandFailed,
    Exit,
    Tinted,
    printable,
    say,
    say_json,
    table_lines,
)
from appliance.cli.reach import ApplianceClient, find_door
from appliance.cli.remote import fetch_plan, read_file
from appliance.cli.wire import ActionBody, PlanBody
from appliance.manifest.quantity import readable_bytes

_HEADERS = ("VERB", "MODEL", "BEFORE", "PEAK", "AFTER", "REASON")
_COLOURS: dict[str, Colour] = {
    "keep": "dim",
    "load": "green",
    "update": "green",
    "unload": "yellow",
    "swap": "yellow",
    "reload": "yellow",
    "refuse": "red",
}


def run_plan(
    file: Path, *, is_offline: bool, url: str | None, state_dir: str | None, as_json: bool
) -> Exit:
    """Say what applying `file` would do; NOT_CONVERGED if something in it would be refused.

    Raises ManifestError if the file is wrong, CommandFailed if no appliance answers.
    """
    plan = _plan_offline(file, state_dir) if is_offline else _plan_online(file, url, state_dir)
    if as_json:
        say_json(msgspec.to_builtins(plan))
    else:
        say_plan(plan)
    return Exit.NOT_CONVERGED if is_refused(plan) else Exit.OK


def say_plan(plan: PlanBody) -> None:
    """Write a plan for people."""
    for line in plan_lines(plan):
        say(line)


def plan_lines(plan: PlanBody) -> list[str]:
    """Return the lines that show a plan; memory is what all models together hold."""
    lines = [_headline(plan)]
    if plan.actions:
        lines += table_lines(_HEADERS, [_row(action) for action in plan.actions])
    if plan.is_quiet and not is_refused(plan):
        lines.append("Nothing to load, unload or update.")
    return lines


def is_refused(plan: PlanBody) -> bool:
    """Say whether something in the manifest does not fit."""
    return any(action.verb == "refuse" for action in plan.actions)


def _plan_online(file: Path, url: str | None, state_dir: str | None) -> PlanBody:
    content = read_file(file)
    try:
        return fetch_plan(ApplianceClient(find_door(url, state_dir)), content, str(file))
    except CommandFailed as error:
        if error.code != Exit.NOT_REACHABLE:
            raise
        hint = "--offline plans against nothing that runs"
        raise CommandFailed(f"{error}; {hint}", code=error.code) from error


def _plan_offline(file: Path, state_dir: str | None) -> PlanBody:
    # It brings in what plans and measures, which the other way leaves to the appliance.
    from appliance.cli.offline import plan_offline  # noqa: PLC0415

    return plan_offline(file, state_dir)


def _headline(plan: PlanBody) -> str:
    facts = []
    if plan.budget_bytes is not None:
        facts.append(f"budget {readable_bytes(plan.budget_bytes)}")
    held = plan.actions[0].before_bytes if plan.actions else 0
    peak = max((action.peak_bytes for action in plan.actions), default=held)
    then = plan.actions[-1].after_bytes if plan.actions else held
    facts.append(f"held {readable_bytes(held)}")
    if not held == peak == then:
        facts.append(f"at most {readable_bytes(max(held, peak))}, then {readable_bytes(then)}")
    return " · ".join(facts)


def _row(action: ActionBody) -> tuple[Cell, ...]:
    verb = printable(action.verb)
    colour = _COLOURS.get(verb)
    figures = (action.before_bytes, action.peak_bytes, action.after_bytes)
    is_weighty = len(set(figures)) > 1
    missing = f"; {readable_bytes(action.missing_bytes)} missing" if action.missing_bytes else ""
    return (
        Tinted(verb, colour) if colour else verb,
        action.model,
        *(readable_bytes(figure) if is_weighty else "" for figure in figures),
        action.reason + missing,
    )
