"""Whatever stands and whatever is wanted: no plan breaks the budget, and planning goes quiet."""

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.manifest.spec import EngineSpec, ModelSpec
from appliance.manifest.spec.model import ResidencySpec
from appliance.reconcile.plan import DesiredModel, Plan, Verb, plan
from appliance.registry.phase import Phase
from appliance.registry.surroundings import Wish
from tests.reconcile.registry_model import Copies, RegistryModel, size_of

NAMES = ("a", "b", "c", "d", "e")
WISHES: tuple[Wish, ...] = ("must", "must", "may", "must_not")
MOST_ROUNDS = 4
SPECS = {
    (name, variant, size, priority): ModelSpec(
        name=name,
        source=f"scripted:{variant}.yaml",
        engine=EngineSpec(memory=size),
        residency=ResidencySpec(priority=priority),
    )
    for name in NAMES
    for variant in ("x", "y", "z")
    for size in (1, 2, 5)
    for priority in (0, 1)
}


def spec_of(name: str) -> st.SearchStrategy[ModelSpec]:
    return st.sampled_from([spec for key, spec in SPECS.items() if key[0] == name])


@st.composite
def wanted(draw: st.DrawFn, name: str) -> DesiredModel:
    spec = draw(spec_of(name))
    wish = draw(st.sampled_from(WISHES))
    return DesiredModel(spec, wish, draw(st.sampled_from((size_of(spec), size_of(spec), None))))


@st.composite
def standing(draw: st.DrawFn, name: str) -> Copies:
    """Draw a name's copies in any state that verbs and their ends lead to."""
    copies = Copies(draw(spec_of(name)), idle_seconds=draw(st.floats(0, 100)))
    verbs = ("load", "unload", "swap", "reload", "finish", "fail")
    for verb in draw(st.lists(st.sampled_from(verbs), max_size=5)):
        if verb in ("finish", "fail") and copies.task:
            copies.finish(succeeds=verb == "finish")
        elif verb == "load" and copies.loaded is None and not copies.task:
            copies.load(draw(spec_of(name)))
        elif copies.loaded is not None and copies.phase is not Phase.DRAINING:
            if verb == "unload":
                copies.unload()
            elif verb == "reload":
                copies.reload(draw(spec_of(name)))
            elif verb == "swap" and copies.phase is Phase.READY:
                copies.swap(draw(spec_of(name)))
    if copies.phase is Phase.READY:
        copies.num_leases = draw(st.integers(0, 1))
    return copies


@st.composite
def registries(draw: st.DrawFn) -> RegistryModel:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return RegistryModel({name: draw(standing(name)) for name in names})


@st.composite
def manifests(draw: st.DrawFn) -> tuple[DesiredModel, ...]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return tuple(draw(wanted(name)) for name in names)


budgets = st.integers(0, 16)


@settings(deadline=None)
@given(registries(), manifests(), budgets)
def test_plan_has_one_action_a_name_and_keeps_to_the_budget(
    registry: RegistryModel, desired: tuple[DesiredModel, ...], budget: int
) -> None:
    made = plan(desired, registry.observed(), budget)

    names = [action.model for action in made.actions]
    assert sorted(names) == sorted({*registry.copies, *(each.spec.name for each in desired)})
    held = registry.held_bytes
    for action in made.actions:
        assert action.before_bytes == held
        assert action.peak_bytes <= max(budget, held)
        assert action.peak_bytes >= max(held, action.after_bytes)
        assert (action.missing_bytes > 0) == (action.verb is Verb.REFUSE)
        held = action.after_bytes


@settings(deadline=None)
@given(registries(), manifests(), budgets)
def test_plan_says_what_its_actions_really_hold(
    registry: RegistryModel, desired: tuple[DesiredModel, ...], budget: int
) -> None:
    specs = known(desired)
    for name in registry.busy():
        end(registry, name)
    made = plan(tuple(specs.values()), registry.observed(), budget)
    registry.serve(specs.values())

    for action in made.actions:
        registry.start(action, {name: each.spec for name, each in specs.items()})
        peak = registry.held_bytes
        if action.model in registry.copies:
            end(registry, action.model)
        assert (peak, registry.held_bytes) == (action.peak_bytes, action.after_bytes)


@settings(deadline=None)
@given(registries(), manifests(), budgets)
def test_plan_goes_quiet_when_its_actions_are_applied_in_order(
    registry: RegistryModel, desired: tuple[DesiredModel, ...], budget: int
) -> None:
    specs = {each.spec.name: each.spec for each in desired}
    for name in registry.busy():
        end(registry, name)
    registry.serve(desired)
    rounds = 0

    while not (made := plan(desired, registry.observed(), budget)).is_quiet:
        rounds += 1
        for action in made.actions:
            registry.start(action, specs)
            end(registry, action.model)

    assert rounds <= MOST_ROUNDS
    assert_as_wanted(made, registry, desired)


@settings(deadline=None)
@given(registries(), manifests(), budgets, st.data())
def test_plan_goes_quiet_within_the_budget_when_actions_overlap_and_fail(
    registry: RegistryModel, desired: tuple[DesiredModel, ...], budget: int, data: st.DataObject
) -> None:
    desired = tuple(known(desired).values())
    specs = {each.spec.name: each.spec for each in desired}
    registry.serve(desired)
    most = max(budget, registry.held_bytes)

    for _ in range(200):
        made = plan(desired, registry.observed(), budget)
        for action in made.startable():
            registry.start(action, specs)
            assert registry.held_bytes <= most
        if not registry.busy():
            break
        name = data.draw(st.sampled_from(registry.busy()))
        registry.finish(name, succeeds=data.draw(st.booleans()))
        assert registry.held_bytes <= most

    assert made.is_quiet


@settings(deadline=None)
@given(registries(), manifests(), budgets)
def test_plan_does_not_depend_on_the_order_of_what_is_observed(
    registry: RegistryModel, desired: tuple[DesiredModel, ...], budget: int
) -> None:
    observed = registry.observed()

    made = plan(desired, observed[::-1], budget)

    assert made == plan(desired, observed, budget)


@settings(deadline=None)
@given(registries(), manifests(), budgets, st.sampled_from(NAMES))
def test_plan_keeps_what_is_unchanged(
    registry: RegistryModel, desired: tuple[DesiredModel, ...], budget: int, name: str
) -> None:
    spec = SPECS[name, "x", 2, 0]
    registry.copies[name] = Copies(spec, spec, phase=Phase.READY, held_bytes=2)
    same = DesiredModel(spec, "must", 2)
    others = tuple(each for each in desired if each.spec.name != name)

    made = plan((*others, same), registry.observed(), budget)

    assert [action.verb for action in made.actions if action.model == name] == [Verb.KEEP]


def known(desired: tuple[DesiredModel, ...]) -> dict[str, DesiredModel]:
    """Return the models with every size known."""
    return {
        each.spec.name: DesiredModel(each.spec, each.wish, size_of(each.spec)) for each in desired
    }


def end(registry: RegistryModel, name: str) -> None:
    """Let all that is under way for a name succeed."""
    while name in registry.busy():
        registry.finish(name)


def assert_as_wanted(
    made: Plan, registry: RegistryModel, desired: tuple[DesiredModel, ...]
) -> None:
    verbs = {action.model: action.verb for action in made.actions}
    assert verbs.keys() == {each.spec.name for each in desired} == registry.copies.keys()
    for each in desired:
        copies = registry.copies[each.spec.name]
        is_loaded = copies.loaded is not None and copies.loaded.load_key() == each.spec.load_key()
        if each.wish == "must" and verbs[each.spec.name] is Verb.KEEP:
            assert is_loaded or copies.failed_key == each.spec.load_key()
        if each.wish == "must_not":
            assert copies.loaded is None
