"""Plan a manifest on this machine against nothing that runs."""

import asyncio
from functools import partial
from pathlib import Path

import msgspec

from appliance.cli.option import read_settings
from appliance.cli.wire import PlanBody
from appliance.manifest.load import LoadedManifest, load_manifest
from appliance.reconcile.desired import Forecasts, desired_models
from appliance.reconcile.plan import plan
from appliance.registry.forecast import forecast
from appliance.registry.machine import machine_bytes
from appliance.registry.store import ModelStore


def plan_offline(file: Path, state_dir: str | None) -> PlanBody:
    """Return what a start with `file` would do, with this machine's memory; raises ManifestError.

    A model whose files are not in the state folder has an unknown size.
    """
    loaded = load_manifest(file)
    folder = read_settings(state_dir=state_dir).state_folder().absolute()
    return asyncio.run(_plan(loaded, ModelStore(folder)))


async def _plan(loaded: LoadedManifest, store: ModelStore) -> PlanBody:
    sizes = Forecasts(partial(forecast, folder=loaded.folder, store=store))
    desired = await desired_models(loaded, (), sizes)
    budget = loaded.manifest.memory.budget_bytes(await machine_bytes())
    made = plan(desired, (), budget)
    body = msgspec.convert(made, PlanBody, from_attributes=True)
    return msgspec.structs.replace(body, revision=loaded.revision)
