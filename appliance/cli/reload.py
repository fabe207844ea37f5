"""Answer `vllm-mlx reload`: read the manifest's file again, at once."""

from appliance.cli.output import Exit, say
from appliance.cli.reach import ApplianceClient, find_door
from appliance.cli.remote import problems_of
from appliance.cli.wire import ChangeBody


def run_reload(*, url: str | None, state_dir: str | None) -> Exit:
    """Make the appliance read its file; raises ManifestError, and then nothing has changed."""
    client = ApplianceClient(find_door(url, state_dir))
    with problems_of():
        change = client.send("POST", "/admin/v1/reload", ChangeBody)
    same = "" if change.is_changed else ", as before"
    say(f"Revision {change.number} is in force{same}.")
    return Exit.OK
