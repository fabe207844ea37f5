"""Say what the manifest wants in memory: its models, what operators asked for, and their sizes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from appliance.manifest.load import LoadedManifest
from appliance.manifest.spec import ModelSpec
from appliance.reconcile.history import Override
from appliance.reconcile.plan import DesiredModel

Forecaster = Callable[[ModelSpec], Awaitable[int | None]]


class Forecasts:
    """What loads will hold, asked once for each; unknown sizes are asked again. Event loop only."""

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster = forecaster
        self._known: dict[str, int] = {}

    async def of(self, spec: ModelSpec) -> int | None:
        """Return the bytes that a model will hold; None before its files are there."""
        key = spec.load_key()
        if key not in self._known:
            size = await self._forecaster(spec)
            if size is None:
                return None
            self._known[key] = size
        return self._known[key]


async def desired_models(
    loaded: LoadedManifest, overrides: Iterable[Override], forecasts: Forecasts
) -> tuple[DesiredModel, ...]:
    """Return what should be in memory, in the manifest's order, without profiles."""
    wishes = {each.model: each for each in overrides}
    specs = [spec for spec in loaded.manifest.models if not spec.is_profile]
    sizes = await asyncio.gather(*map(forecasts.of, specs))
    wanted = []
    for spec, size in zip(specs, sizes, strict=True):
        override = wishes.get(spec.name)
        wish = override.wish if override and touches(override, spec) else spec.residency_wish
        wanted.append(DesiredModel(spec, wish, size))
    return tuple(wanted)


def touches(override: Override, spec: ModelSpec) -> bool:
    """Say whether an override was made for the model as it is now: another revision drops it."""
    return override.spec_key == spec_key(spec)


def spec_key(spec: ModelSpec) -> str:
    """Return what tells one revision of a model from another."""
    return spec.load_key() + spec.policy_key()
