"""Merge the section `defaults` under one model: what the model says itself wins."""

from appliance.manifest.spec import DefaultsSpec, ModelSpec, Section


def merge_defaults(model: ModelSpec, defaults: DefaultsSpec) -> ModelSpec:
    """Return `model` with every key that only `defaults` sets; mappings merge, lists replace."""
    own = {name: getattr(model, name) for name in DefaultsSpec.model_fields}
    merged = {name: _merge(value, getattr(defaults, name)) for name, value in own.items()}
    return model.model_copy(update=merged)


def _merge(own: object, default: object) -> object:
    if isinstance(own, Section) and isinstance(default, Section):
        said = {name: getattr(default, name) for name in default.model_fields_set}
        for name in own.model_fields_set & default.model_fields_set:
            said[name] = _merge(getattr(own, name), said[name])
        return own.model_copy(update=said)
    if isinstance(own, dict) and isinstance(default, dict):
        return default | {key: _merge(value, default.get(key)) for key, value in own.items()}
    return own
