"""Read from the manifest who may call, and refuse to serve an address that leaves it open."""

import contextlib
from ipaddress import ip_address

from appliance.api.auth import Caller, KeyEntry, KeyRing
from appliance.chat.request import Thinking
from appliance.errors import ManifestError, Problem
from appliance.manifest.load import LoadedManifest
from appliance.manifest.spec import AuthKeySpec, Manifest
from appliance.pipeline.sender import Sender


def key_ring(loaded: LoadedManifest) -> KeyRing:
    """Return the manifest's keys with what each may do."""
    return KeyRing(
        tuple(
            KeyEntry(loaded.key_digests[spec.name], _caller(spec))
            for spec in loaded.manifest.auth_keys
        )
    )


def _caller(spec: AuthKeySpec) -> Caller:
    models = None if spec.models is None else frozenset(spec.models)
    wish = spec.thinking
    thinking = Thinking(wish.enabled, wish.effort, is_firm=False, budget=wish.budget)
    sender = Sender(spec.name, spec.weight, spec.priority, thinking)
    return Caller(sender, frozenset(spec.roles), models)


def refuse_open_address(host: str, manifest: Manifest, keys: KeyRing) -> None:
    """Raise ManifestError for an address beyond loopback that everybody could use."""
    if not keys.is_empty or manifest.server.allow_lan_without_keys:
        return
    loopback = host == "localhost"
    with contextlib.suppress(ValueError):
        loopback = ip_address(host).is_loopback
    if not loopback:
        reason = (
            f"refusing to serve {host} without auth_keys: add keys, or set "
            "server.allow_lan_without_keys: true"
        )
        raise ManifestError((Problem("serve", 0, "host", reason),))
