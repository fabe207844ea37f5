"""Keep the status that operators read: what is wanted, what is there, and since when and why."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from appliance.reconcile.history import Override, Revision
from appliance.reconcile.plan import Action, DesiredModel, Plan, Verb
from appliance.registry.phase import ModelStatus, Phase, WorkProgress
from appliance.registry.registry import Registry
from appliance.registry.surroundings import Wish

_HAS_FILES = frozenset({Phase.LOADING, Phase.VERIFYING, Phase.READY, Phase.DRAINING})
_IS_LOADED = frozenset({Phase.VERIFYING, Phase.READY, Phase.DRAINING})


class Condition(msgspec.Struct, frozen=True):
    """One thing that holds of a model or not, None = not known; `since` in unix seconds."""

    kind: str
    is_met: bool | None
    reason: str
    since: float


class ModelReport(msgspec.Struct, frozen=True):
    """One model: what is wanted of it and what there is."""

    name: str
    phase: str
    wish: str
    desired_key: str | None
    observed_key: str | None
    reason: str
    conditions: list[Condition]
    requests: int
    restarts: int
    worker_pid: int | None
    context_tokens: int | None
    memory_bytes: int
    held_bytes: int
    retry_in_seconds: float | None
    last_error: str | None
    override: str | None
    progress: WorkProgress | None
    profiles: list[str]


class ReloadReport(msgspec.Struct, frozen=True):
    """How the last reading of the manifest went; `at` in unix seconds."""

    is_ok: bool
    at: float
    problems: list[str]


class Status(msgspec.Struct, frozen=True):
    """The whole appliance at one moment."""

    state: str
    revision: str
    number: int
    file: str
    reload: ReloadReport
    budget_bytes: int | None
    held_bytes: int
    models: list[ModelReport]


@dataclass(frozen=True)
class _Wanted:
    wish: Wish
    override: Wish | None


@dataclass
class _Known:
    """What the last pass said."""

    revision: str = ""
    number: int = 0
    file: str = ""
    budget_bytes: int | None = None
    is_planned: bool = False
    is_quiet: bool = False
    wanted: dict[str, _Wanted] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)


class Board:
    """Written by the reconciler only; read by anybody. Event loop only."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known = _Known()
        self._reload = ReloadReport(True, time.time(), [])
        self._conditions: dict[tuple[str, str], Condition] = {}
        self._changed = asyncio.Event()

    def note_accepted(self, revision: Revision, file: str, budget_bytes: int | None) -> None:
        """A revision is in force."""
        self._known.revision, self._known.number = revision.revision, revision.number
        self._known.file, self._known.budget_bytes = file, budget_bytes
        # What was planned for the revision before says nothing of this one.
        self._known.is_planned = False
        self._reload = ReloadReport(True, time.time(), [])
        self.note_change()

    @property
    def is_rejected(self) -> bool:
        """Say whether the manifest that was read last is not the one in force."""
        return not self._reload.is_ok

    def note_rejected(self, problems: list[str]) -> None:
        """A manifest was read that does not hold; the one before it stays in force."""
        self._reload = ReloadReport(False, time.time(), problems)
        self.note_change()

    def note_plan(
        self, plan: Plan, desired: tuple[DesiredModel, ...], overrides: list[Override]
    ) -> None:
        """A plan was made; it is about to be acted upon."""
        asked = {each.model: each.wish for each in overrides}
        actions = {action.model: action for action in plan.actions}
        self._known.actions = actions
        self._known.wanted = {
            each.spec.name: _Wanted(each.wish, asked.get(each.spec.name)) for each in desired
        }
        self._known.is_planned, self._known.is_quiet = True, plan.is_quiet
        for name, kind in tuple(self._conditions):
            if name not in actions:
                del self._conditions[name, kind]
        for status in self._registry.statuses():
            self._conditions_of(status, self._refusal(status.name))
        self.note_change()

    def note_change(self) -> None:
        """Something that the status shows has changed."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def number(self) -> int:
        """The number of the revision in force."""
        return self._known.number

    async def watch(self, least_seconds: float = 0.02) -> AsyncIterator[Status]:
        """Yield the status now and after each change, at most every so often; never ends."""
        while True:
            changed = self._changed
            yield self.status()
            await asyncio.gather(changed.wait(), asyncio.sleep(least_seconds))

    def status(self) -> Status:
        """Return how everything is now."""
        models = [self._report(each) for each in self._registry.statuses()]
        return Status(
            state=self._state(models),
            revision=self._known.revision,
            number=self._known.number,
            file=self._known.file,
            reload=self._reload,
            budget_bytes=self._known.budget_bytes,
            held_bytes=sum(each.held_bytes for each in models),
            models=models,
        )

    def _state(self, models: list[ModelReport]) -> str:
        if not self._reload.is_ok:
            return "degraded"
        if not self._known.is_planned:
            return "converging"
        refused = any(a.verb is Verb.REFUSE for a in self._known.actions.values())
        failed = any(model.last_error and not _is_settled(model) for model in models)
        if refused or failed:
            return "degraded"
        is_done = self._known.is_quiet and all(map(_is_settled, models))
        return "converged" if is_done else "converging"

    def _report(self, status: ModelStatus) -> ModelReport:
        wanted = self._known.wanted.get(status.name)
        refusal = self._refusal(status.name)
        return ModelReport(
            name=status.name,
            phase=status.phase.value,
            wish=wanted.wish if wanted else "must_not",
            desired_key=status.desired_key if wanted else None,
            observed_key=status.observed_key,
            reason=refusal or status.reason,
            conditions=self._conditions_of(status, refusal),
            requests=status.requests,
            restarts=status.restarts,
            worker_pid=status.worker_pid,
            context_tokens=status.context_tokens,
            memory_bytes=status.memory_bytes,
            held_bytes=status.held_bytes,
            retry_in_seconds=status.retry_in_seconds,
            last_error=refusal or status.last_error,
            override=wanted.override if wanted else None,
            progress=status.progress,
            profiles=list(status.profiles),
        )

    def _refusal(self, name: str) -> str | None:
        action = self._known.actions.get(name)
        return action.reason if action and action.verb is Verb.REFUSE else None

    def _conditions_of(self, status: ModelStatus, refusal: str | None) -> list[Condition]:
        phase, has_failed = status.phase, status.failed_key is not None
        why = status.last_error if has_failed and status.last_error else status.reason
        absent = None if phase is Phase.ABSENT else False
        facts: list[tuple[str, bool | None, str]] = [
            ("Accepted", refusal is None, refusal or ""),
            ("Downloaded", phase in _HAS_FILES or absent, why),
            ("Loaded", phase in _IS_LOADED or absent, why),
            ("Verified", False if has_failed else phase is Phase.READY or None, why),
            ("Ready", phase is Phase.READY, why),
        ]
        return [self._condition(status.name, *fact) for fact in facts]

    def _condition(self, name: str, kind: str, is_met: bool | None, reason: str) -> Condition:
        before = self._conditions.get((name, kind))
        if before is None or before.is_met is not is_met:
            before = Condition(kind, is_met, reason, time.time())
        made = msgspec.structs.replace(before, reason=reason)
        self._conditions[name, kind] = made
        return made


def _is_settled(model: ModelReport) -> bool:
    """Say whether a model is as it is wished: there with the right load, or not there."""
    if model.wish == "must":
        return model.phase == Phase.READY and model.observed_key == model.desired_key
    if model.wish == "must_not":
        return model.phase == Phase.ABSENT
    return model.phase in (Phase.ABSENT, Phase.READY)
