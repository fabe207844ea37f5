"""Say what the admin API's bodies look like."""

import msgspec

from appliance.reconcile.history import Revision
from appliance.reconcile.plan import Plan
from appliance.telemetry.log import LogLevel


class RollbackBody(msgspec.Struct, frozen=True):
    """Which revision to go back to; None = the one before the one in force."""

    number: int | None = None


class LogLevelBody(msgspec.Struct, frozen=True):
    """The least severe line to log from now on, until a restart or a manifest says otherwise."""

    level: LogLevel


def plan_body(plan: Plan, revision: str | None) -> dict[str, object]:
    """Return a plan; `revision` is what it leads to."""
    return {
        "revision": revision,
        "budget_bytes": plan.budget_bytes,
        "is_quiet": plan.is_quiet,
        "actions": plan.actions,
    }


def revision_body(revision: Revision, in_force: int, *, has_text: bool) -> dict[str, object]:
    """Return a row of the history; `in_force` is the number of the one that is."""
    body: dict[str, object] = {
        "number": revision.number,
        "revision": revision.revision,
        "at": revision.at,
        "who": revision.who,
        "how": revision.how,
        "is_in_force": revision.number == in_force,
        "diff": revision.diff,
    }
    return body | {"text": revision.text} if has_text else body
