"""A registry without workers: what each verb holds, at once, and what its end gives back."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from appliance.manifest.spec import ModelSpec
from appliance.reconcile.plan import Action, DesiredModel, Verb
from appliance.registry.observed import ObservedModel
from appliance.registry.phase import Phase


def size_of(spec: ModelSpec) -> int:
    """Return what a model of these tests holds."""
    return 0 if spec.engine.memory == "auto" else spec.engine.memory


@dataclass
class Copies:
    """All of one name. `task` is what `finish` ends next."""

    spec: ModelSpec
    loaded: ModelSpec | None = None
    incoming: ModelSpec | None = None
    failed_key: str | None = None
    phase: Phase = Phase.ABSENT
    held_bytes: int = 0
    task: str | None = None
    num_leases: int = 0
    idle_seconds: float = 0.0
    is_served: bool = True

    def observed(self) -> ObservedModel:
        return ObservedModel(
            name=self.spec.name,
            spec=self.spec,
            load_key=self.loaded.load_key() if self.loaded else None,
            incoming_key=self.incoming.load_key() if self.incoming else None,
            failed_key=self.failed_key,
            phase=self.phase,
            held_bytes=self.held_bytes,
            is_busy=self.task is not None,
            reason=self.task or self.phase.value,
            idle_seconds=self.idle_seconds,
            num_leases=self.num_leases,
        )

    def load(self, spec: ModelSpec) -> None:
        self.loaded, self.phase, self.task = spec, Phase.LOADING, "load"
        self.held_bytes = size_of(spec)

    def unload(self) -> None:
        self.incoming, self.phase, self.task = None, Phase.DRAINING, "unload"

    def swap(self, spec: ModelSpec) -> None:
        assert self.loaded is not None
        self.held_bytes = size_of(self.loaded)
        self.incoming, self.task = None, None
        if spec.load_key() != self.loaded.load_key():
            self.held_bytes += size_of(spec)
            self.incoming, self.task = spec, "swap"

    def reload(self, spec: ModelSpec) -> None:
        self.incoming, self.phase, self.task = spec, Phase.DRAINING, "drain for reload"
        self.held_bytes = max(self.held_bytes, size_of(spec))

    def finish(self, *, succeeds: bool) -> None:
        task, self.task = self.task, None
        match task:
            case "load" | "load again":
                self._end_load(succeeds=succeeds or task == "load again")
            case "unload":
                self.loaded, self.phase, self.held_bytes = None, Phase.ABSENT, 0
            case "swap":
                self._end_swap(succeeds=succeeds)
            case "drain for reload":
                self._begin_reload()
            case "reload":
                self._end_reload(succeeds=succeeds)
            case _:
                self._settle()

    def _settle(self) -> None:
        assert self.loaded is not None
        self.phase, self.held_bytes = Phase.READY, size_of(self.loaded)

    def _end_load(self, *, succeeds: bool) -> None:
        assert self.loaded is not None
        if succeeds:
            self._settle()
            return
        self.failed_key = self.loaded.load_key()
        self.loaded, self.phase, self.held_bytes = None, Phase.FAILED, 0

    def _end_swap(self, *, succeeds: bool) -> None:
        assert self.incoming is not None
        if succeeds:
            self.loaded, self.task = self.incoming, "drain the old copy"
        else:
            self.failed_key = self.incoming.load_key()
            self._settle()
        self.incoming = None

    def _begin_reload(self) -> None:
        self._old, self.loaded, self.incoming = self.loaded, self.incoming, None
        self.phase, self.task = Phase.LOADING, "reload"

    def _end_reload(self, *, succeeds: bool) -> None:
        assert self.loaded is not None
        if succeeds:
            self._settle()
            return
        self.failed_key = self.loaded.load_key()
        self.loaded, self.task = self._old, "load again"


@dataclass
class RegistryModel:
    """Every name; what the tests ask of a registry."""

    copies: dict[str, Copies] = field(default_factory=dict)

    @classmethod
    def at_rest(cls, specs: Iterable[ModelSpec]) -> "RegistryModel":
        ready = {
            spec.name: Copies(spec, spec, phase=Phase.READY, held_bytes=size_of(spec))
            for spec in specs
        }
        return cls(ready)

    @property
    def held_bytes(self) -> int:
        return sum(each.held_bytes for each in self.copies.values())

    def observed(self) -> tuple[ObservedModel, ...]:
        return tuple(each.observed() for each in self.copies.values())

    def busy(self) -> list[str]:
        return [name for name, each in self.copies.items() if each.task is not None]

    def serve(self, desired: Iterable[DesiredModel]) -> None:
        wanted = {each.spec.name: each.spec for each in desired}
        for name, copies in self.copies.items():
            copies.spec, copies.is_served = wanted.get(name, copies.spec), name in wanted
        for name, spec in wanted.items():
            self.copies.setdefault(name, Copies(spec))

    def start(self, action: Action, specs: dict[str, ModelSpec]) -> None:
        copies = self.copies[action.model]
        match action.verb:
            case Verb.LOAD:
                copies.load(specs[action.model])
            case Verb.SWAP:
                copies.swap(specs[action.model])
            case Verb.RELOAD:
                copies.reload(specs[action.model])
            case Verb.UNLOAD:
                copies.unload()
            case _:
                pass

    def finish(self, name: str, *, succeeds: bool = True) -> None:
        copies = self.copies[name]
        copies.finish(succeeds=succeeds)
        if copies.phase is Phase.ABSENT and not copies.is_served:
            del self.copies[name]
