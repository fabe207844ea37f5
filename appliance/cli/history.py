"""Answer `vllm-mlx history [NUMBER]`: which manifests were in force, since when, by whom?"""

import msgspec

from appliance.cli.diff import say_diff
from appliance.cli.output import (
    Cell,
    Exit,
    Tinted,
    printable,
    readable_moment,
    say,
    say_json,
    say_table,
)
from appliance.cli.reach import ApplianceClient, find_door
from appliance.cli.wire import HistoryBody, RevisionBody

_PATH = "/admin/v1/history"


def run_history(
    number: int | None, *, url: str | None, state_dir: str | None, as_json: bool
) -> Exit:
    """List the revisions, the newest first, or say what revision `number` changed."""
    client = ApplianceClient(find_door(url, state_dir))
    body = fetch_history(client) if number is None else fetch_revision(client, number)
    if as_json:
        say_json(msgspec.to_builtins(body))
    elif isinstance(body, RevisionBody):
        _say_revision(body)
    else:
        headers = ("NUMBER", "WHEN", "WHO", "HOW", "REVISION", "")
        say_table(headers, [_row(revision) for revision in body.revisions])
    return Exit.OK


def fetch_history(client: ApplianceClient) -> HistoryBody:
    """Return the revisions, the newest first; raises CommandFailed."""
    return client.get(_PATH, HistoryBody)


def fetch_revision(client: ApplianceClient, number: int) -> RevisionBody:
    """Return one revision with its text; raises CommandFailed."""
    return client.get(f"{_PATH}/{number}", RevisionBody)


def _row(revision: RevisionBody) -> tuple[Cell, ...]:
    return (
        str(revision.number),
        readable_moment(revision.at),
        revision.who,
        revision.how,
        revision.revision,
        Tinted("in force", "green") if revision.is_in_force else "",
    )


def _say_revision(revision: RevisionBody) -> None:
    author = f" by {revision.who}" if revision.who else ""
    facts = f"revision {revision.number} ({revision.revision}), {readable_moment(revision.at)}"
    say(printable(f"{facts}: {revision.how}{author}"))
    say_diff(revision.diff.splitlines())
