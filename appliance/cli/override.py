"""Answer `load`, `unload`, `pin` and `unpin`: an operator's wish for one model."""

from urllib.parse import quote

from appliance.cli.output import Exit, printable, say
from appliance.cli.reach import ApplianceClient, find_door
from appliance.cli.wire import OverrideBody

_UNTIL = "until a revision changes the model"
_MEANINGS: dict[str | None, str] = {
    "must": f"in memory, {_UNTIL}",
    "may": f"in memory when it is asked for, {_UNTIL}",
    "must_not": f"not in memory, {_UNTIL}",
    None: "as the manifest says",
}


def run_load(name: str, *, url: str | None, state_dir: str | None) -> Exit:
    """Want a model in memory; the load goes on after this returns. Raises CommandFailed."""
    return _override("load", name, url, state_dir)


def run_unload(name: str, *, url: str | None, state_dir: str | None) -> Exit:
    """Want a model out of memory, once its requests have ended. Raises CommandFailed."""
    return _override("unload", name, url, state_dir)


def run_pin(name: str, *, url: str | None, state_dir: str | None) -> Exit:
    """Want a model to stay in memory. Raises CommandFailed."""
    return _override("pin", name, url, state_dir)


def run_unpin(name: str, *, url: str | None, state_dir: str | None) -> Exit:
    """Take a pin back. Raises CommandFailed."""
    return _override("unpin", name, url, state_dir)


def _override(verb: str, name: str, url: str | None, state_dir: str | None) -> Exit:
    client = ApplianceClient(find_door(url, state_dir))
    path = f"/admin/v1/models/{quote(name, safe='', errors='replace')}/{verb}"
    body = client.send("POST", path, OverrideBody)
    meaning = _MEANINGS.get(body.override, body.override or "")
    say(printable(f"{body.model}: {meaning}"))
    return Exit.OK
