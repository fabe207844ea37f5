"""Decide what must change for the models in memory to become those that are wanted. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from appliance.manifest.quantity import readable_bytes
from appliance.manifest.spec import ModelSpec
from appliance.manifest.spec.section import Section
from appliance.reconcile.headroom import Headroom, Idle, choose_leaving
from appliance.registry.observed import ObservedModel
from appliance.registry.phase import Phase
from appliance.registry.surroundings import Wish

_UNKNOWN = "; its size is unknown until its download and is checked again then"
_STAYS_OUT = {"may": "loads at the first request", "must_not": "stays out of memory"}


class Verb(StrEnum):
    """What happens to a model."""

    KEEP = "keep"
    """Nothing, or what is under way goes on."""
    UPDATE = "update"
    """Only its policy changes; what is in memory stays."""
    LOAD = "load"
    """It comes into memory."""
    UNLOAD = "unload"
    """It is drained and leaves."""
    SWAP = "swap"
    """A new copy loads beside the old one and takes over."""
    RELOAD = "reload"
    """The old copy leaves before the new one loads; requests wait."""
    REFUSE = "refuse"
    """There is no room for what is wanted; what runs keeps running."""


@dataclass(frozen=True)
class DesiredModel:
    """One model as it should be; `forecast_bytes` None = unknown before its download."""

    spec: ModelSpec
    wish: Wish
    forecast_bytes: int | None


@dataclass(frozen=True)
class Action:
    """What to do with one model, and what all models together hold before, during and after it.

    `missing_bytes`: what a refused model lacks although everything that may leave would leave.
    """

    verb: Verb
    model: str
    reason: str
    before_bytes: int
    peak_bytes: int
    after_bytes: int
    missing_bytes: int = 0

    @property
    def is_quiet(self) -> bool:
        """Say whether it starts nothing."""
        return self.verb in (Verb.KEEP, Verb.REFUSE)


@dataclass(frozen=True)
class Plan:
    """Actions in their order, one for each name; `budget_bytes` None = unbounded."""

    actions: tuple[Action, ...]
    budget_bytes: int | None

    @property
    def is_quiet(self) -> bool:
        """Say whether nothing is left to do."""
        return all(action.is_quiet for action in self.actions)

    def startable(self) -> tuple[Action, ...]:
        """Return the actions that may be started now without awaiting one another.

        The others need memory that these give back; the next plan, when that has come, has them.
        """
        started = []
        growth = 0
        for action in self.actions:
            more = action.peak_bytes - action.before_bytes
            peak = self.actions[0].before_bytes + growth + more
            if not more or self.budget_bytes is None or peak <= self.budget_bytes:
                growth += more
                started.append(action)
        return tuple(started)


def plan(
    desired: tuple[DesiredModel, ...],
    observed: tuple[ObservedModel, ...],
    budget_bytes: int | None,
) -> Plan:
    """Return what leads from the models observed to those desired.

    Unloads come first, then the manifest's order, then loads of unknown size. The figures of an
    action hold once those before it have ended; see `Plan.startable` for starting several at once.

    No action's peak is over the budget; where more than that is held already, none raises it. A
    model that does not fit waits for memory that is on its way back, else makes idle `may` models
    of no higher priority leave, else is refused.

    A model that the registry is at work on is left to it while it drains, and as long as what is
    under way (`incoming_key`, else `load_key`) is what is wanted; else the plan starts from where
    it stands. A SWAP to what serves already only drops the copy that was to replace it.
    """
    return _Draft(desired, observed, budget_bytes).plan()


@dataclass(frozen=True)
class _Step:
    """An action before its place is known: the bytes it adds at its worst moment, and at last."""

    verb: Verb
    model: str
    reason: str
    peak_growth: int = 0
    growth: int = 0
    missing_bytes: int = 0


class _Draft:
    """The steps of one plan, decided one after another."""

    def __init__(
        self,
        desired: tuple[DesiredModel, ...],
        observed: tuple[ObservedModel, ...],
        budget_bytes: int | None,
    ) -> None:
        self._desired = {each.spec.name: each for each in desired}
        self._seen = {each.name: each for each in observed}
        self._held = sum(each.held_bytes for each in observed)
        pending = [_pending(each, self._desired.get(each.name)) for each in observed]
        coming = sum(growth for growth in pending if growth > 0)
        returning = -sum(growth for growth in pending if growth < 0)
        self._room = Headroom(budget_bytes, self._held + coming, returning)
        self._leaving: dict[str, _Step] = {}
        self._steps: dict[str, _Step] = {}

    def plan(self) -> Plan:
        """Decide every step; those that need no memory first, since they may give some back."""
        for name in sorted(self._seen.keys() - self._desired.keys()):
            self._put(_depart(self._seen[name]))
        loading = []
        for name, wanted in self._desired.items():
            step = _settle(wanted, self._seen.get(name))
            if step is None:
                loading.append(wanted)
            else:
                self._put(step)
        loading.sort(key=lambda each: each.forecast_bytes is None)
        for wanted in loading:
            if wanted.spec.name not in self._leaving:
                self._put(self._place(wanted))
        return Plan(_weigh(self._in_order(loading), self._held), self._room.budget_bytes)

    def _put(self, step: _Step) -> None:
        is_leaving = step.verb is Verb.UNLOAD or step.model not in self._desired
        (self._leaving if is_leaving else self._steps)[step.model] = step
        self._room.take(step.growth)

    def _in_order(self, loading: list[DesiredModel]) -> list[_Step]:
        unknown = [each.spec.name for each in loading if each.forecast_bytes is None]
        known = [name for name in self._desired if name not in unknown]
        placed = (self._steps.get(name) for name in (*known, *unknown))
        return [*self._leaving.values(), *(step for step in placed if step is not None)]

    def _place(self, wanted: DesiredModel) -> _Step:
        """Find room for a model that needs a load."""
        ways = _ways(wanted, self._seen.get(wanted.spec.name))
        for way in ways:
            if self._room.has(way.peak_growth):
                return way
            if self._room.will_have(way.peak_growth):
                return self._wait(way)
        return self._make_room(wanted, ways[-1])

    def _wait(self, way: _Step) -> _Step:
        # Whoever comes later in the manifest does not get it.
        self._room.take(way.peak_growth)
        return _Step(Verb.KEEP, way.model, "waits for memory that is on its way back")

    def _make_room(self, wanted: DesiredModel, way: _Step) -> _Step:
        idle = list(self._idle(wanted.spec))
        missing = self._room.missing_bytes(way.peak_growth)
        leaving = choose_leaving(idle, missing)
        if not leaving:
            return self._refuse(wanted, missing - sum(each.held_bytes for each in idle))
        for each in leaving:
            reason = f"contention: {way.model} needs its memory"
            self._steps.pop(each.name, None)
            self._put(_Step(Verb.UNLOAD, each.name, reason, growth=-each.held_bytes))
        return way if self._room.has(way.peak_growth) else self._wait(way)

    def _refuse(self, wanted: DesiredModel, missing_bytes: int) -> _Step:
        needed, budget = wanted.forecast_bytes or 0, self._room.budget_bytes or 0
        reason = (
            f"needs {readable_bytes(needed)}; {readable_bytes(max(0, needed - missing_bytes))} "
            f"of {readable_bytes(budget)} can be had"
        )
        return _Step(Verb.REFUSE, wanted.spec.name, reason, missing_bytes=missing_bytes)

    def _idle(self, newcomer: ModelSpec) -> Iterator[Idle]:
        """Yield the models that may leave for a newcomer: it, too, may leave for them."""
        for name, wanted in self._desired.items():
            seen, priority = self._seen.get(name), wanted.spec.residency.priority
            is_movable = wanted.wish == "may" and priority <= newcomer.residency.priority
            if seen is None or not is_movable or name in (newcomer.name, *self._leaving):
                continue
            step = self._steps.get(name)
            is_untouched = step is None or step.verb in (Verb.KEEP, Verb.UPDATE)
            if is_untouched and _is_idle(seen):
                yield Idle(name, seen.held_bytes, priority, seen.idle_seconds)


def _is_idle(seen: ObservedModel) -> bool:
    # What fails and tries again does no more for anybody than what waits for a request.
    is_at_rest = seen.phase is Phase.FAILED or (seen.phase is Phase.READY and not seen.is_busy)
    return is_at_rest and not seen.num_leases


def _is_leaving(seen: ObservedModel) -> bool:
    """Say whether all that there is of a model is on its way out."""
    has_nothing = seen.load_key is None and seen.incoming_key is None
    return seen.phase is Phase.DRAINING or (seen.is_busy and has_nothing)


def _depart(seen: ObservedModel) -> _Step:
    if _is_leaving(seen):
        return _Step(Verb.KEEP, seen.name, seen.reason)
    return _Step(Verb.UNLOAD, seen.name, "not in the manifest any more", growth=-seen.held_bytes)


def _pending(seen: ObservedModel, wanted: DesiredModel | None) -> int:
    """Return how much more a model will hold when what is under way has ended; negative = less.

    It grows if it was started when its size was not known yet.
    """
    is_draining = seen.phase is Phase.DRAINING
    coming = seen.incoming_key if is_draining else seen.incoming_key or seen.load_key
    if not seen.is_busy:
        return 0
    if coming is None:
        return -seen.held_bytes if is_draining else 0
    if wanted is None or wanted.forecast_bytes is None or wanted.spec.load_key() != coming:
        return 0
    return wanted.forecast_bytes - seen.held_bytes


def _settle(wanted: DesiredModel, seen: ObservedModel | None) -> _Step | None:
    """Return the step of a model that needs no load, None if it needs one."""
    if seen is None:
        if wanted.wish == "must":
            return None
        return _Step(Verb.UPDATE, wanted.spec.name, f"new; {_STAYS_OUT[wanted.wish]}")
    if seen.phase is Phase.DRAINING:
        return _keep(wanted, seen, seen.reason)
    coming, key = seen.incoming_key or seen.load_key, wanted.spec.load_key()
    if wanted.wish == "must_not" and coming:
        return _Step(
            Verb.UNLOAD, seen.name, "operator: not to be in memory", growth=-seen.held_bytes
        )
    if coming == key:
        is_at_rest = seen.phase is Phase.READY and not seen.is_busy
        return _keep(wanted, seen, "unchanged" if is_at_rest else seen.reason)
    if key == seen.failed_key:
        return _keep(wanted, seen, f"waits for a new revision: {seen.reason}")
    if coming is None and wanted.wish != "must":
        return _keep(wanted, seen, _STAYS_OUT[wanted.wish])
    return None


def _keep(wanted: DesiredModel, seen: ObservedModel, reason: str) -> _Step:
    """Leave what is in memory as it is; a policy that differs takes force."""
    old, new = seen.spec, wanted.spec
    is_changed = old.policy_key() != new.policy_key()
    if seen.load_key is None and old.load_key() != new.load_key():
        is_changed = True
    if not is_changed:
        return _Step(Verb.KEEP, new.name, reason)
    state = "" if reason == "unchanged" else f"; {reason}"
    return _Step(Verb.UPDATE, new.name, f"{_changes(old, new)}{state}")


def _ways(wanted: DesiredModel, seen: ObservedModel | None) -> list[_Step]:
    """Return how a model can be loaded, the way that clients notice least first."""
    name, size = wanted.spec.name, wanted.forecast_bytes
    note = _UNKNOWN if size is None else ""
    if seen is None or (seen.load_key is None and seen.incoming_key is None):
        reason = f"is to be in memory{note}"
        return [_Step(Verb.LOAD, name, reason, size or 0, size or 0)]
    growth = 0 if size is None else size - seen.held_bytes
    if seen.load_key == wanted.spec.load_key():
        reason = "what serves is wanted again"
        return [_Step(Verb.SWAP, name, reason, growth=min(0, growth))]
    changes = _changes(seen.spec, wanted.spec)
    reload = _Step(Verb.RELOAD, name, f"{changes}{note}", max(0, growth), growth)
    if seen.phase is not Phase.READY:
        return [reload]
    swap = _Step(Verb.SWAP, name, f"{changes}{note or '; both copies fit'}", size or 0, growth)
    return [swap, replace(reload, reason=f"{changes}; only one copy fits")]


def _changes(old: ModelSpec, new: ModelSpec) -> str:
    """Say which settings differ, by name only: values may be secret."""
    names = ", ".join(_differences(old, new))
    return f"{names} changed" if names else "its source or engine changed"


def _differences(old: Section, new: Section, prefix: str = "") -> Iterator[str]:
    for name in type(new).model_fields:
        one, other = getattr(old, name), getattr(new, name)
        if isinstance(one, Section) and isinstance(other, Section) and not prefix:
            yield from _differences(one, other, f"{name}.")
        elif one != other:
            yield f"{prefix}{name}"


def _weigh(steps: list[_Step], held_bytes: int) -> tuple[Action, ...]:
    """Add up what is held at each step."""
    actions = []
    for step in steps:
        peak, after = held_bytes + step.peak_growth, held_bytes + step.growth
        actions.append(
            Action(step.verb, step.model, step.reason, held_bytes, peak, after, step.missing_bytes)
        )
        held_bytes = after
    return tuple(actions)
