"""Answer `vllm-mlx rollback [NUMBER]`: put an earlier manifest in force again."""

from appliance.cli.consent import ask, require_person
from appliance.cli.history import fetch_history, fetch_revision
from appliance.cli.output import CommandFailed, Exit, say
from appliance.cli.plan import say_plan
from appliance.cli.reach import ApplianceClient, find_door
from appliance.cli.remote import changed_meanwhile, fetch_manifest, fetch_plan, problems_of
from appliance.cli.watch import wait_converged
from appliance.cli.wire import ChangeBody


def run_rollback(
    number: int | None,
    *,
    is_agreed: bool,
    is_waiting: bool,
    url: str | None,
    state_dir: str | None,
) -> Exit:
    """Show the plan of revision `number` (default: the one before), ask, send and wait as `apply`.

    Raises ManifestError if what was right once is not any more, and CommandFailed.
    """
    require_person(is_agreed=is_agreed)
    client = ApplianceClient(find_door(url, state_dir))
    etag = fetch_manifest(client).etag
    target = _find_number(client) if number is None else number
    name = f"revision {target}"
    text = fetch_revision(client, target).text or ""
    say_plan(fetch_plan(client, text.encode(), name))
    if not (is_agreed or ask(f"Go back to {name} and do this?")):
        say("Nothing was changed.")
        return Exit.FAILED
    with problems_of(name), changed_meanwhile("vllm-mlx history"):
        content = {"number": target}
        change = client.send("POST", "/admin/v1/rollback", ChangeBody, content, etag)
    say(f"Revision {change.number} is in force, as {target} was.")
    return wait_converged(client, change.number) if is_waiting else Exit.OK


def _find_number(client: ApplianceClient) -> int:
    revisions = fetch_history(client).revisions
    current = next((i for i, each in enumerate(revisions) if each.is_in_force), len(revisions))
    if current + 1 >= len(revisions):
        raise CommandFailed("no revision before the one in force is known")
    return revisions[current + 1].number
