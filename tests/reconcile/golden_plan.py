"""Read golden plans; `python -m tests.reconcile.golden_plan` writes them anew, for you to check.

A file has four parts between rulers: the manifest before, what is observed of its models, the
manifest after, and the plan. A model in it holds, and is forecast, what its `engine.memory` says;
without that its size is unknown.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from appliance.manifest.load import load_manifest_text
from appliance.manifest.quantity import parse_size, readable_bytes
from appliance.manifest.spec import Manifest, ModelSpec
from appliance.reconcile.plan import Action, DesiredModel, Plan, plan
from appliance.registry.observed import ObservedModel
from appliance.registry.phase import Phase

FOLDER = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))
_MACHINE_BYTES = 2**50
_RULER = re.compile(r"^-+$\n", re.MULTILINE)


def read(name: str) -> tuple[Plan, str]:
    """Return the plan that is made for a case, and its text as it should be."""
    before, observed, after, expected = _RULER.split((FOLDER / f"{name}.txt").read_text())
    made = _plan(_manifest(before), _manifest(after), yaml.safe_load(observed) or {})
    return made, expected


def print_plan(made: Plan) -> str:
    """Return a line for each action: the verb, the model, memory before, at most, after, why."""
    lines = [_line(action) for action in made.actions]
    return "".join(f"{line}\n" for line in lines) or "nothing\n"


def _line(action: Action) -> str:
    sizes = (action.before_bytes, action.peak_bytes, action.after_bytes)
    memory = " > ".join(readable_bytes(size) for size in sizes)
    missing = f" (missing {readable_bytes(action.missing_bytes)})" if action.missing_bytes else ""
    return f"{action.verb:<7}{action.model:<6}{memory}: {action.reason}{missing}"


def _manifest(text: str) -> Manifest:
    return load_manifest_text(f"version: 1\n{text}", name="case", folder=FOLDER).manifest


def _plan(before: Manifest, after: Manifest, observed: dict[str, Any]) -> Plan:
    wishes = observed.pop("wishes", {})
    specs = {spec.name: (spec, spec) for spec in before.models}
    specs |= {new.name: (specs.get(new.name, (new,))[0], new) for new in after.models}
    desired = tuple(
        DesiredModel(spec, wishes.get(spec.name, spec.residency_wish), _size(spec))
        for spec in after.models
    )
    seen = tuple(_observe(*specs[name], facts) for name, facts in observed.items())
    return plan(desired, seen, after.memory.budget_bytes(_MACHINE_BYTES))


def _observe(old: ModelSpec, new: ModelSpec, facts: str | dict[str, Any]) -> ObservedModel:
    """Build what is observed of a model: its phase alone, or what differs from a model at rest."""
    facts = {"phase": facts} if isinstance(facts, str) else facts
    keys = {None: None, "old": old.load_key(), "new": new.load_key(), "other": "0" * 16}
    is_there = facts["phase"] not in ("absent", "failed")
    default_size = (_size(old) or 0) if is_there else 0
    return ObservedModel(
        name=old.name,
        spec=new if facts.get("is_served") else old,
        load_key=keys[facts.get("load", "old" if is_there else None)],
        incoming_key=keys[facts.get("incoming")],
        failed_key=keys[facts.get("failed")],
        phase=Phase(facts["phase"]),
        held_bytes=parse_size(facts.get("held", default_size)),
        is_busy=facts.get("busy", False),
        reason=facts.get("reason", facts["phase"]),
        idle_seconds=facts.get("idle", 60.0),
        num_leases=facts.get("leases", 0),
    )


def _size(spec: ModelSpec) -> int | None:
    return None if spec.engine.memory == "auto" else spec.engine.memory


def _rewrite() -> None:
    for name in NAMES:
        made, _ = read(name)
        file = FOLDER / f"{name}.txt"
        *parts, _ = _RULER.split(file.read_text())
        file.write_text("---\n".join([*parts, print_plan(made)]))


if __name__ == "__main__":
    _rewrite()
