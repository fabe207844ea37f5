"""What is planned, case by case: see the files in `golden`."""

import json
import time

import pytest

from appliance.manifest.spec import EngineSpec, ModelSpec
from appliance.reconcile.plan import DesiredModel, Verb, plan
from tests.reconcile.golden_plan import NAMES, print_plan, read
from tests.reconcile.registry_model import RegistryModel

GIB = 2**30


@pytest.mark.parametrize("name", NAMES)
def test_plan_reads_as_the_golden_one(name: str) -> None:
    made, expected = read(name)

    assert print_plan(made) == expected


def test_plan_cases_show_every_verb() -> None:
    verbs = {action.verb for name in NAMES for action in read(name)[0].actions}

    assert verbs == set(Verb)


def test_plan_is_quiet_when_nothing_is_left_to_do() -> None:
    quiet = {name for name in NAMES if read(name)[0].is_quiet}

    assert {"unchanged", "refuse_change", "under_way", "draining"} <= quiet
    assert not quiet & {"swap", "policy_only", "removed", "first_start"}


def test_plan_starts_at_once_only_what_needs_no_returning_memory() -> None:
    made, _ = read("removed")

    assert [action.verb for action in made.startable()] == [Verb.UNLOAD, Verb.KEEP]


def test_plan_without_a_budget_fits_everything() -> None:
    spec = ModelSpec(name="a", source="scripted:a.yaml")

    made = plan((DesiredModel(spec, "must", 2**60),), (), None)

    assert [action.verb for action in made.actions] == [Verb.LOAD]
    assert made.startable() == made.actions


def test_plan_of_a_secret_shows_no_value() -> None:
    old, new = (
        ModelSpec(name="a", source=f"hf:org/{secret}", engine=EngineSpec(memory=GIB))
        for secret in ("hunter2", "hunter3")
    )
    registry = RegistryModel.at_rest([old])

    made = plan((DesiredModel(new, "must", GIB),), registry.observed(), 3 * GIB)

    assert made.actions[0].verb is Verb.SWAP
    assert "hunter" not in json.dumps([action.reason for action in made.actions])


def test_plan_of_fifty_models_tells_its_time() -> None:
    specs = [ModelSpec(name=f"m{number}", source="scripted:a.yaml") for number in range(50)]
    changed = [spec.model_copy(update={"aliases": (f"x-{spec.name}",)}) for spec in specs]
    observed = RegistryModel.at_rest(specs).observed()
    desired = tuple(DesiredModel(spec, "must", GIB) for spec in changed)

    begin = time.perf_counter()
    made = plan(desired, observed, GIB)
    print(f"plan of {len(made.actions)} models: {(time.perf_counter() - begin) * 1e3:.1f} ms")  # noqa: T201

    assert {action.verb for action in made.actions} == {Verb.UPDATE}
