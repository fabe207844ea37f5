"""Answer `vllm-mlx apply FILE`: make this the manifest in force, and wait until it is so."""

from pathlib import Path

from appliance.cli.consent import ask, require_person
from appliance.cli.output import Exit, printable, say
from appliance.cli.plan import say_plan
from appliance.cli.reach import ApplianceClient, find_door
from appliance.cli.remote import fetch_manifest, fetch_plan, put_manifest, read_file
from appliance.cli.watch import wait_converged


def run_apply(
    file: Path, *, is_agreed: bool, is_waiting: bool, url: str | None, state_dir: str | None
) -> Exit:
    """Show the plan, ask unless `is_agreed`, send the file as it is, and wait if `is_waiting`.

    Returns FAILED if the answer is no, NOT_CONVERGED if the wait ends so. Raises ManifestError and
    CommandFailed; before the file is sent nothing has changed.
    """
    require_person(is_agreed=is_agreed)
    content = read_file(file)
    client = ApplianceClient(find_door(url, state_dir))
    before = fetch_manifest(client)
    say_plan(fetch_plan(client, content, str(file)))
    target = printable(before.file or "the appliance's manifest")
    if not (is_agreed or ask(f"Write {target} and do this?")):
        say("Nothing was changed.")
        return Exit.FAILED
    change = put_manifest(client, content, str(file), before.etag)
    say(f"Revision {change.number} is in force.")
    return wait_converged(client, change.number) if is_waiting else Exit.OK
