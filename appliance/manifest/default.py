"""Merge what a model does not say itself: from `defaults`, and for a profile from its base."""

from collections.abc import Set
from typing import TypeVar

from appliance.manifest.spec.manifest import Manifest
from appliance.manifest.spec.model import OF_BASE, DefaultsSpec, ModelSpec
from appliance.manifest.spec.section import Section

_S = TypeVar("_S", bound=Section)

_NOT_INHERITED = frozenset({"name", "aliases", "like"})


def merge_models(manifest: Manifest) -> tuple[ModelSpec, ...]:
    """Return every model as it is meant; each profile's `like` names a model that is no profile.

    What a model says itself wins over its base, and that over `defaults`; mappings merge, lists
    replace.
    """
    whole = {
        model.name: merge_defaults(model, manifest.defaults)
        for model in manifest.models
        if model.like is None
    }
    return tuple(
        whole[model.name] if model.like is None else _merge_base(model, whole[model.like])
        for model in manifest.models
    )


def merge_defaults(model: ModelSpec, defaults: DefaultsSpec) -> ModelSpec:
    """Return `model` with every key that only `defaults` sets."""
    return _merged(model, defaults, defaults.model_fields_set)


def _merge_base(profile: ModelSpec, base: ModelSpec) -> ModelSpec:
    merged = _merged(profile, base, base.model_fields_set - _NOT_INHERITED)
    return merged.model_copy(update={name: getattr(base, name) for name in OF_BASE})


def _merged(own: _S, default: Section, names: Set[str]) -> _S:
    said = {name: getattr(default, name) for name in names}
    for name in own.model_fields_set & names:
        said[name] = _merge(getattr(own, name), said[name])
    return own.model_copy(update=said)


def _merge(own: object, default: object) -> object:
    if isinstance(own, Section) and isinstance(default, Section):
        return _merged(own, default, default.model_fields_set)
    if isinstance(own, dict) and isinstance(default, dict):
        return default | {key: _merge(value, default.get(key)) for key, value in own.items()}
    return own
